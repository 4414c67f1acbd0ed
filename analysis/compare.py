# SPDX-License-Identifier: BSD-2-Clause
"""Compare several finished runs: measure each, write their differences, draw them on the same axes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.discovery import find_parts
from analysis.errors import OptionError, ReportError
from analysis.figures import compare as compare_figures
from analysis.measures.compare.compared_run import LETTERS, Compared, load_compared
from analysis.render import html, text
from analysis.render.document import Document
from analysis.render.output import CompareSource, Made, Output, make_all, write_files
from analysis.rundir.folder import Folder, check_free, new_folder, new_or_empty_folder
from analysis.rundir.run import clean
from analysis.sections.compare.brief import FULL, brief
from analysis.sections.compare.differences import as_csv
from analysis.sections.compare.document import make_document
from analysis.sections.compare.facts import tags

SCHEMA = 1


def make_compare(paths: Sequence[Path], out: Path | None) -> str:
    """Write the comparison's directory; returns what the terminal shows. out: None makes one in runs/."""
    _check(paths, out)
    runs = [load_compared(letter, path) for letter, path in zip(LETTERS, paths, strict=False)]
    full = make_document(runs)
    document = brief(full)
    outputs: list[Output[CompareSource]] = find_parts(compare_figures, "OUTPUT", Output)
    made = make_all(outputs, _source(runs, document))
    now = datetime.now(UTC)
    files = _files(runs, full, document, made, now)
    directory, folder = _make_directory(out, now)
    write_files(folder.open_path, files)
    return text.essence(document, [directory / name for name in files])


def _check(paths: Sequence[Path], out: Path | None) -> None:
    """OptionError: too few or too many runs, a run named twice, or an output directory that is not empty."""
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


def _source(runs: Sequence[Compared], document: Document) -> CompareSource:
    """What the pictures are drawn from."""
    title = document.title.removeprefix("Seekmeter: ")
    return CompareSource(runs, tags(runs), title, document.banners)


def _files(
    runs: Sequence[Compared], full: Document, document: Document, made: Sequence[Made], now: datetime
) -> dict[str, bytes]:
    """All files of the comparison, in the order in which the terminal and the page list them."""
    files = {
        "compare.txt": text.encoded(text.render(document)),
        "compare.html": b"",  # it names all others: below
        "compare.csv": as_csv(runs).encode("utf-8", "backslashreplace"),
        "compare.json": (json.dumps(_facts(runs, now), indent=1) + "\n").encode("ascii"),
    }
    if document.sections != full.sections:
        files[FULL] = text.encoded(text.render(full))
    for output in made:
        files |= output.files
    drawings = [drawing for output in made for drawing in output.drawings]
    page = html.render(document, drawings, list(files), "the comparison's directory")
    files["compare.html"] = page.encode("utf-8", "backslashreplace")
    return files


def _facts(runs: Sequence[Compared], now: datetime) -> dict[str, Any]:
    """compare.json: which runs were compared, and when."""
    return {
        "schema": SCHEMA,
        "kind": "compare",
        "made_realtime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "runs": [
            {
                "letter": compared.letter,
                "name": compared.run.name,
                "path": clean(compared.run.open_path.resolve()),
                "state": compared.run.state,
                "command": compared.run.text("command"),
                "emulated": compared.emulated,
            }
            for compared in runs
        ],
    }


def _make_directory(out: Path | None, now: datetime) -> tuple[Path, Folder]:
    """The path and the open folder of OUT, or of a new directory in runs/ named after the time."""
    parent = Path("runs")
    name = now.astimezone().strftime("compare-%Y%m%d-%H%M%S")
    try:
        if out is not None:
            return out, new_or_empty_folder(out)
        for suffix in ("", *(f"-{i}" for i in range(2, 100))):
            path = parent / (name + suffix)
            try:
                return path, new_folder(path)
            except FileExistsError:
                continue
    except OSError as error:
        directory = clean(parent if out is None else out)
        reason = f"{directory} can't be made or written ({error.strerror})"
        raise ReportError(f"{reason}; name another directory with OUT=DIRECTORY") from None
    raise ReportError(f"{clean(parent / name)} exists already; try again in a second")
