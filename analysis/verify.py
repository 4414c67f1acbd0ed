# SPDX-License-Identifier: BSD-2-Clause
"""Judge the pairs of make verify, and keep the verdict in the run that the finding is of (verify/N.json)."""

from __future__ import annotations

import json
import math
import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis import front
from analysis.errors import OptionError, ReportError, TableError
from analysis.measures.verify.identity import Named, is_same
from analysis.measures.verify.judgement import (
    Judgement,
    Prediction,
    Seconds,
    is_narrow,
    judge,
    mean_seconds,
)
from analysis.measures.verify.pairs import WHAT_LETTERS, Pairs, Tested, read_pairs, read_tested
from analysis.rundir.files import read_json_object, write_atomic
from analysis.rundir.folder import make_inside, open_run_folder
from analysis.rundir.sweep_dir import Sweep, open_sweep
from analysis.units import figures
from analysis.visible import clean

FOLDER = "verify"
SCHEMA = 1
MOST_FILES = 200
# The runs with the cause took so much more or less than the recorded run: stated beside the verdict.
LEAST_DRIFT_SHARE = 0.1


def verify_goal(path: Path) -> tuple[str, int]:
    """A line with what is known so far, and 1; 0 if the interval of the seconds saved is narrow enough."""
    sweep = open_sweep(path)
    tested, pairs = read_tested(sweep), read_pairs(sweep).pairs
    if not pairs:
        return "no pair is over\n", 1
    saved = mean_seconds([pair.saved_s for pair in pairs])
    if is_narrow(saved, tested.prediction.goal_s):
        return "", 0
    return f"{_saved(saved)}, {figures(tested.prediction.goal_s)} s to each side are wanted\n", 1


def make_verdict(path: Path) -> tuple[str, Path | None]:
    """Judge the pairs of a directory of make verify, of an interrupted one those that are over.

    Returns what the terminal shows, and the run to report anew. None: it has no new verdict, or an
    interrupted one, which its next report shows.
    """
    sweep = open_sweep(path)
    tested, pairs = read_tested(sweep), read_pairs(sweep)
    lines = [("finding", f"{tested.number} of {clean(tested.run)}: {clean(tested.what)}"), *_remedy(tested)]
    if not pairs.pairs:
        lines.append(("verdict", f"none: no pair of runs is over{_broken(pairs)}"))
        if not _is_over(sweep):
            lines.append(("goes on", f"the same command goes on: {clean(front.shown(sweep.command), 300)}"))
        return _shown(lines), None
    judgement = judge(tested.prediction, pairs.pairs)
    lines += [("measured", _measured(tested, judgement)), *_notes(sweep, tested, judgement, pairs)]
    lines.append(("verdict", f"{judgement.verdict}: {judgement.why}"))
    if not _is_over(sweep):
        lines.append(
            ("goes on", f"interrupted; the same command goes on: {clean(front.shown(sweep.command), 300)}")
        )
    kept = _keep(sweep, tested, pairs, judgement)
    if kept is None:
        lines.append(("not kept", "the run has a verdict on this finding already, that was not interrupted"))
        return _shown(lines), None
    lines.append(("kept in", f"{clean(kept)}, and shown with the finding in the run's reports"))
    return _shown(lines), Path(tested.run) if _is_over(sweep) else None


def _is_over(sweep: Sweep) -> bool:
    return sweep.state == "complete"


def _shown(lines: list[tuple[str, str]]) -> str:
    return "".join(f"  {label:<12} {text}\n" for label, text in lines)


def _range(low_s: float, high_s: float) -> str:
    """An interval in seconds: 8.30 to 12.5 s."""
    if not math.isfinite(low_s) or not math.isfinite(high_s):
        return "of unknown width"
    return f"{figures(low_s)} to {figures(high_s)} s"


def _saved(saved: Seconds) -> str:
    pairs = _pairs(saved.pairs)
    less = f"{figures(saved.value_s)} s less" if saved.value_s >= 0 else f"{figures(-saved.value_s)} s more"
    return f"{less}, 95 % interval {_range(saved.low_s, saved.high_s)} ({pairs})"


def _pairs(number: int) -> str:
    return f"{number} pair{'s' if number != 1 else ''}"


def _brief(judgement: Judgement, prediction: Prediction) -> str:
    """What was measured and predicted, for two lines of a screen."""
    saved, put_off = judgement.saved, judgement.put_off
    less = "less" if saved.value_s >= 0 else "more"
    measured = f"{figures(abs(saved.value_s))} s {less} in {_pairs(saved.pairs)}"
    if math.isfinite(saved.half_s):
        measured += f" ({figures(saved.low_s)} to {figures(saved.high_s)})"
    if put_off.low_s > 0:
        measured += f", {figures(put_off.value_s)} s of it put off"
    predicted = f"{figures(prediction.low_s)} to {figures(prediction.high_s)}"
    return f"{measured}, predicted {figures(prediction.value_s)} ({predicted})"


def _predicted(prediction: Prediction) -> str:
    low, high = figures(prediction.low_s), figures(prediction.high_s)
    return f"{figures(prediction.value_s)} s less, between {low} and {high} s"


def _remedy(tested: Tested) -> list[tuple[str, str]]:
    words = [f"{name}={shlex.quote(text)}" if text else f"no {name}" for name, text in tested.words.items()]
    return [
        ("remedy", clean(f"{tested.text}: {' '.join(words)}", 400)),
        ("predicted", _predicted(tested.prediction)),
    ]


def _measured(tested: Tested, judgement: Judgement) -> str:
    walls = f"{figures(judgement.with_s)} s with the cause, {figures(judgement.without_s)} s without"
    return f"{_saved(judgement.saved)}: {walls}{'' if tested.is_recorded else ', nothing recorded'}"


def _broken(pairs: Pairs) -> str:
    return f"; {_pairs(pairs.broken)} with a run that failed" if pairs.broken else ""


def _notes(sweep: Sweep, tested: Tested, judgement: Judgement, pairs: Pairs) -> list[tuple[str, str]]:
    """What the reader must know beside the verdict."""
    notes = []
    if judgement.put_off.low_s > 0:
        put_off = judgement.put_off
        notes.append(
            f"after the workload, writing back and unmounting took {figures(put_off.value_s)} s more without "
            f"the cause ({_range(put_off.low_s, put_off.high_s)}): so much was put off, not saved"
        )
    wall_s = tested.prediction.wall_s
    unrecorded = "" if tested.is_recorded else ", with nothing recorded"
    if wall_s and abs(judgement.with_s - wall_s) > LEAST_DRIFT_SHARE * wall_s:
        notes.append(
            f"the recorded run took {figures(wall_s)} s, runs like it took {figures(judgement.with_s)} s "
            f"now{unrecorded}: the prediction is about the former"
        )
    if not _is_over(sweep):
        notes.append(f"interrupted after {_pairs(len(pairs.pairs))}")
    if pairs.broken:
        notes.append(f"left out{_broken(pairs)}".replace("out; ", "out: "))
    return [("note", note) for note in notes]


def _keep(sweep: Sweep, tested: Tested, pairs: Pairs, judgement: Judgement) -> Path | None:
    """Write verify/N.json into the run; returns its path. None: one that was not interrupted stays.

    Raises ReportError, OptionError, MachineError.
    The number may have become another finding's: a file of another finding stays, and N gets a suffix.
    """
    run = Path(tested.run)
    folder = open_run_folder(run)
    if not os.path.lexists(folder.open_path / "run.json"):
        raise OptionError(f"{clean(run)} is not a run directory any more; the verdict is not kept")
    try:
        make_inside(folder.open_path, FOLDER)
    except OSError as error:
        raise ReportError(
            f"{clean(run)} can't be written ({error.strerror}); the verdict is not kept"
        ) from None
    name = _name(folder.open_path / FOLDER, tested)
    if not _is_over(sweep) and _is_complete(folder.open_path / FOLDER / name):
        return None
    value = _as_json(sweep, tested, pairs, judgement)
    write_atomic(
        folder.open_path / FOLDER / name, json.dumps(value, indent=1, allow_nan=False).encode() + b"\n"
    )
    return run / FOLDER / name


def _name(folder: Path, tested: Tested) -> str:
    for suffix in ("", *(f"-{number}" for number in range(2, MOST_FILES))):
        name = f"{tested.number}{suffix}.json"
        if not os.path.lexists(folder / name) or _is_of(folder / name, tested):
            return name
    raise ReportError(f"{FOLDER}/ has {MOST_FILES} verdicts on finding {tested.number}; remove old ones")


def _is_of(path: Path, tested: Tested) -> bool:
    try:
        facts = read_json_object(path)
    except TableError:
        return False
    old = Named(str(facts.get("kind")), str(facts.get("what"))[:WHAT_LETTERS], {})
    return is_same(old, Named(tested.kind, tested.what, {}))


def _is_complete(path: Path) -> bool:
    try:
        return read_json_object(path).get("state") != "interrupted"
    except TableError:
        return False


def _as_json(sweep: Sweep, tested: Tested, pairs: Pairs, judgement: Judgement) -> Mapping[str, Any]:
    """The content of verify/N.json, see docs/SCHEMA.md."""
    prediction, saved = tested.prediction, judgement.saved
    return {
        "schema": SCHEMA,
        "number": tested.number,
        "kind": tested.kind,
        "what": tested.what,
        "remedy": {"words": dict(tested.words), "text": tested.text},
        "cost_s": list(tested.cost_s),
        "predicted_s": [prediction.low_s, prediction.value_s, prediction.high_s],
        "measured_s": _three(saved),
        "state": "complete" if _is_over(sweep) else "interrupted",
        "verdict": str(judgement.verdict),
        "why": judgement.why,
        "text": _brief(judgement, prediction),
        "goal_s": prediction.goal_s,
        "put_off_s": _three(judgement.put_off),
        "recorded_wall_s": tested.prediction.wall_s,
        "with_s": judgement.with_s,
        "without_s": judgement.without_s,
        "notes": [note for _, note in _notes(sweep, tested, judgement, pairs)],
        "tracing": "on" if tested.is_recorded else "off",
        "pairs": [
            {
                "with_s": pair.with_s,
                "without_s": pair.without_s,
                "after_with_s": pair.after_with_s,
                "after_without_s": pair.after_without_s,
                "first": pair.first,
            }
            for pair in pairs.pairs
        ],
        "broken_pairs": pairs.broken,
        "command": clean(sweep.command, 2000),
        "sweep": str(sweep.path.resolve()),
        "made_realtime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _three(seconds: Seconds) -> list[float] | None:
    """Low, value and high; null for a single pair."""
    if not math.isfinite(seconds.half_s):
        return None
    return [seconds.low_s, seconds.value_s, seconds.high_s]
