# SPDX-License-Identifier: BSD-2-Clause
"""Make one report of several finished runs: measure each, say what differs, draw them on the same axes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis import units
from analysis.errors import OptionError, ReportError
from analysis.figures.compare import iographs, locks_heatmap
from analysis.measures.compare.compared_run import LETTERS, Compared, load_compared
from analysis.render import html, text, titles
from analysis.rundir.files import write_atomic
from analysis.rundir.folder import Folder, check_free, new_folder, new_or_empty_folder
from analysis.rundir.run import clean
from analysis.sections.compare.brief import FULL, brief
from analysis.sections.compare.content import make_document
from analysis.sections.compare.differences import as_csv
from analysis.sections.compare.facts import stacked, tags

SCHEMA = 1
FILES = ("compare.txt", "compare.html", "compare.csv", "compare.json")  # and the pictures
ESSENCE = (
    "What is compared",
    "What differs most",
    "Differences",
    "Where the time went",
    "Throughput",
    "Spin share by lock",
    "Which lock next",
    "Warnings and gaps",
)
PICTURE = "IO graphs of the runs side by side: disk offset, throughput, rates and latency over time"
HEATMAP = "Heat map of locks by runs: share of CPU time spinning, and sleeping per operation"


def _check(paths: Sequence[Path], out: Path | None) -> None:
    """Raise OptionError for too few or too many runs, one named twice, or a place that is taken."""
    if not 2 <= len(paths) <= len(LETTERS):
        raise OptionError(
            f"{len(paths)} run directories were named; name 2 to {len(LETTERS)}, such as"
            " RUNS='runs/ONE runs/OTHER'"
        )
    seen: dict[str, Path] = {}
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            raise OptionError(f"{clean(seen[real])} and {clean(path)} are the same run; name different ones")
        seen[real] = path
    if out is not None:
        check_free(out)


def _make_directory(out: Path | None, now: datetime) -> tuple[Path, Folder]:
    """The comparison's directory: OUT, or a new one under runs/; its name and itself."""
    folder = Path("runs")
    name = now.astimezone().strftime("compare-%Y%m%d-%H%M%S")
    try:
        if out is not None:
            return out, new_or_empty_folder(out)
        for suffix in ("", *(f"-{i}" for i in range(2, 100))):
            path = folder / (name + suffix)
            try:
                return path, new_folder(path)
            except FileExistsError:
                continue
    except OSError as error:
        where = folder if out is None else out
        why = f"{clean(where)} can't be made or written ({error.strerror})"
        raise ReportError(f"{why}; give another place with OUT=DIRECTORY") from None
    raise ReportError(f"{clean(folder / name)} is there already; try again in a second")


def _about(runs: Sequence[Compared], now: datetime) -> dict[str, Any]:
    """compare.json: which runs these were."""
    return {
        "schema": SCHEMA,
        "kind": "compare",
        "made_realtime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "runs": [
            {
                "letter": one.letter,
                "name": one.run.name,
                "path": clean(one.run.place.resolve()),
                "state": one.run.state,
                "command": one.run.text("command"),
                "emulated": one.emulated,
            }
            for one in runs
        ],
    }


def _names(one: Compared, tag: str) -> tuple[str, str, str]:
    """What stands above a run's column in the picture."""
    kernel = one.run.text("kernel", "release")
    length = f"{units.seconds(one.results.window.work_s)} s"
    return (
        f"{one.letter}  {tag or titles.run_title(one.run)}",
        f"Linux {kernel}" if kernel else "",
        f"{length}, EMULATED CPUs" if one.emulated else length,
    )


def make_compare(paths: Sequence[Path], out: Path | None) -> str:
    """Write the comparison's directory; returns what to print: the text's essence and where the files are."""
    _check(paths, out)
    runs = [load_compared(letter, path) for letter, path in zip(LETTERS, paths, strict=False)]
    full = make_document(runs)
    document = brief(full)
    names = [_names(one, tag) for one, tag in zip(runs, tags(runs), strict=True)]
    title = document.title.removeprefix("Seekmeter: ")
    png, svg = iographs.render(runs, title, names, document.banners)
    pictures = {"compare": (PICTURE, png, svg)}
    heatmap = locks_heatmap.render(runs, stacked(tags(runs)), f"Locks: {title}", document.banners)
    if heatmap is not None:
        pictures["locks_heatmap"] = (HEATMAP, *heatmap)
    has_full = document.sections != full.sections
    files = [
        *FILES,
        *([FULL] if has_full else []),
        *(f"{name}.{kind}" for name in pictures for kind in ("png", "svg")),
    ]
    shown = [(words, svg) for words, _, svg in pictures.values()]
    page = html.render(document, shown, files, "the comparison's directory")
    now = datetime.now(UTC)
    differences = as_csv(runs).encode("utf-8", "backslashreplace")
    runs_said = json.dumps(_about(runs, now), indent=1) + "\n"
    directory, folder = _make_directory(out, now)
    write_atomic(folder.place / "compare.txt", text.encoded(text.render(document)))
    if has_full:
        write_atomic(folder.place / FULL, text.encoded(text.render(full)))
    write_atomic(folder.place / "compare.html", page.encode("utf-8", "backslashreplace"))
    for name, (_, png, svg) in pictures.items():
        write_atomic(folder.place / f"{name}.png", png)
        write_atomic(folder.place / f"{name}.svg", svg)
    write_atomic(folder.place / "compare.csv", differences)
    write_atomic(folder.place / "compare.json", runs_said.encode("ascii"))
    return text.essence(document, ESSENCE, [directory / name for name in files])
