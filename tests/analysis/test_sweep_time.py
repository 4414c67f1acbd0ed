# SPDX-License-Identifier: BSD-2-Clause
"""Which cause makes the best configuration of a sweep faster than the last."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.measures.compare.time_apart import DIFFERS, NOISE
from analysis.measures.sweep.group_times import apart, fastest_and_slowest
from analysis.measures.sweep.run_times import BY, BYTES, CALLS, figures_of
from analysis.sections.sweep.time_apart import build_time_apart
from tests.analysis.sweep_data import make_data, text_of
from tests.analysis.sweeps import figures
from tests.analysis.test_compare_time import EXT3, Made, base, compared

__all__ = ["base"]  # a fixture
SPACE, TEXT = (
    "log_space",
    {"log_space": "journal or log space", "cpu": "on a CPU", "unknown": "not explained"},
)
Lines = Mapping[str, Sequence[float]]
Works = Mapping[str, Mapping[str, float]]
SLOW: Lines = {"log_space": [13.0, 13.2, 12.8], "cpu": [27.0, 27.4, 26.9], "unknown": [0.1, 0.0, 0.1]}
FAST: Lines = {"cpu": [27.2, 26.8, 27.3], "unknown": [0.1, 0.1, 0.0]}
WORK = {f"{BYTES}write": 6e9, f"{BYTES}read": 0.0, f"{CALLS}open": 5000.0}


def frame_of(
    lines: Mapping[str, Lines], work: Mapping[str, Mapping[str, float]] | None = None
) -> pd.DataFrame:
    """Figures of configurations: rates as the headline, the seconds of each run by cause, and its work."""
    count = max(len(values) for one in lines.values() for values in one.values())
    frame = figures({name: [100.0 / (n + 1)] * count for n, name in enumerate(reversed(list(lines)))})
    rows: list[dict[str, Any]] = []
    for record in frame.to_dict("records"):
        row: dict[str, Any] = {str(key): value for key, value in record.items()}
        name, at = str(row["configuration"]), int(row["rep"]) - 1
        known = {
            f"{BY}path: {key}: {TEXT[key]}": (values[at], "s", "time")
            for key, values in lines[name].items()
            if values[at]  # a cause without time has no figure
        }
        known |= {key: (value, "", "work") for key, value in (work or {}).get(name, WORK).items()}
        row |= {"better": "", "headline": False}
        rows += [
            {**row, "measure": key, "value": value, "unit": unit, "kind": kind}
            for key, (value, unit, kind) in known.items()
        ]
    return pd.concat([frame, pd.DataFrame(rows, columns=frame.columns)], ignore_index=True)


def test_cause_of_the_best_is_named_with_intervals(tmp_path: Path) -> None:
    data = make_data(tmp_path / "s", frame_of({"slow": SLOW, "fast": FAST}))
    (group,) = data.groups
    best, last = fastest_and_slowest(group)
    assert (best.label, last.label) == ("fast", "slow")
    time = apart(group, last, best)
    assert time is not None and time.is_compared and time.unit == ""
    assert time.apart[SPACE, 1].value_s == pytest.approx(-13.0)
    assert (time.apart[SPACE, 1].verdict, time.apart["cpu", 1].verdict) == (DIFFERS, NOISE)
    walls = [[sum(values[n] for values in one.values()) for n in range(3)] for one in (SLOW, FAST)]
    assert time.whole[1].value_s == pytest.approx(sum(walls[1]) / 3 - sum(walls[0]) / 3)
    assert math.fsum(one.value_s for one in time.apart.values()) == pytest.approx(time.whole[1].value_s)
    told = text_of(build_time_apart(data))
    assert "fast is 13.0 +-" in told and "faster than slow: journal or log space -13.0, not explained" in told


def test_other_work_is_not_subtracted(tmp_path: Path) -> None:
    frame = frame_of({"slow": SLOW, "fast": FAST}, {"slow": {**WORK, f"{CALLS}open": 1.0}})
    told = text_of(build_time_apart(make_data(tmp_path / "s", frame)))
    assert "fast and slow do not compare in seconds: " in told and "faster" not in told


def test_sweep_without_times_says_so(tmp_path: Path) -> None:
    told = text_of(build_time_apart(make_data(tmp_path / "s", figures({"a": [1.0, 2.0], "b": [3.0, 4.0]}))))
    assert "the runs did not record where their time went" in told


def test_figures_of_a_run_are_its_ledger(base: Any) -> None:
    made = {one.measure: one for one in figures_of(compared(base, "A", EXT3))}
    seconds = [one.value for name, one in made.items() if name.startswith(f"{BY}path: ")]
    assert math.fsum(seconds) == pytest.approx(41.8)
    assert made[f"{BY}path: log_space: journal or log space"].value == pytest.approx(13.0)
    assert made[f"{BYTES}write"].value == 1_000_000
    failed = Made(EXT3.path, facts={"workload": {"exit_status": 1}})
    assert list(figures_of(compared(base, "A", failed))) == []
