# SPDX-License-Identifier: BSD-2-Clause
"""Compare several finished runs, or sweeps: measure each, judge their differences, write and draw them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis import front, units
from analysis.answer.compared import page as answer_page
from analysis.answer.compared import text as answer_text
from analysis.answer.compared.answer import make_answer
from analysis.answer.compared.compare_json import answer_facts
from analysis.answer.compared.found import KindsFound, kinds_found
from analysis.discovery import find_parts
from analysis.errors import OptionError, ReportError
from analysis.figures import compare as compare_figures
from analysis.figures.compare.verdicts import make_picture
from analysis.measures.compare.compared_run import LETTERS, Compared, compared, load
from analysis.measures.compare.compared_sweeps import load_compared_sweeps
from analysis.measures.compare.verdicts import Verdicts, judge
from analysis.measures.compare.verdicts_of_runs import pairs_of_runs
from analysis.page import live
from analysis.page.live import Live
from analysis.page.packed import PackedRun, start_pack
from analysis.page.several import side_by_side
from analysis.render import html, text, titles
from analysis.render.document import Document
from analysis.render.output import CompareSource, Made, Output, RunSource, make_all, write_files
from analysis.rundir.folder import Folder, check_free, new_folder, new_or_empty_folder
from analysis.rundir.run import clean
from analysis.rundir.sweep_dir import is_sweep
from analysis.sections.compare.brief import FULL, brief
from analysis.sections.compare.differences import as_csv
from analysis.sections.compare.document import make_document
from analysis.sections.compare.facts import tags
from analysis.sections.compare.sweeps_document import make_sweeps_document, sweep_facts
from analysis.sections.compare.verdict_tables import EXIT_CODES, as_json, sentence
from analysis.sections.compare.verdict_tables import as_csv as verdicts_as_csv
from analysis.sections.document import run_banners

SCHEMA = 3
ANSWER = "answer.txt"  # the first screen alone, for a mail


@dataclass(frozen=True)
class Comparison:
    """The content of a comparison's directory. document: the short form of full. facts: of compare.json."""

    full: Document
    document: Document
    verdicts: Verdicts
    csv: str
    made: Sequence[Made]
    facts: dict[str, Any]
    live: Live | None = None  # of runs: what the page shows of them over time


@dataclass(frozen=True)
class _OneRun:
    """What is kept of a run when its tables are gone."""

    run: Compared
    found: KindsFound
    packed: PackedRun


def make_compare(paths: Sequence[Path], out: Path | None) -> tuple[str, int]:
    """Write the comparison's directory; returns what the terminal shows, and the verdict's exit code.

    out: None makes one in runs/.
    """
    is_of_sweeps = _are_sweeps(paths)
    _check(paths, out)
    comparison = _of_sweeps(paths) if is_of_sweeps else _of_runs(paths)
    now = datetime.now(UTC)
    files = _files(comparison, now)
    directory, folder = _make_directory(out, now)
    write_files(folder.open_path, files)
    essence = text.essence(comparison.document, [directory / name for name in files])
    verdicts = comparison.verdicts
    return f"{essence}\nverdict: {sentence(verdicts)}\n", EXIT_CODES[verdicts.overall]


def _are_sweeps(paths: Sequence[Path]) -> bool:
    """Whether these are sweeps, not runs. OptionError: only some are, or a sweep is alone."""
    found = [is_sweep(path) for path in paths]
    if not any(found):
        return False
    sweep = clean(paths[found.index(True)])
    if len(paths) == 1:
        raise OptionError(
            f"{sweep} is one sweep; `{front.command(f'report RUN={sweep}')}` shows its configurations side "
            "by side, and a second sweep in RUNS is compared with it"
        )
    if not all(found):
        raise OptionError(
            f"{sweep} is a sweep and {clean(paths[found.index(False)])} is none; compare sweeps with sweeps,"
            f" or runs with runs (a sweep's are in {sweep}/runs)"
        )
    return True


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


def _of_runs(paths: Sequence[Path]) -> Comparison:
    """Several runs, side by side."""
    each = [_one_run(letter, path, len(paths)) for letter, path in zip(LETTERS, paths, strict=False)]
    runs, found = [one.run for one in each], [one.found for one in each]
    full = make_document(runs)
    document = brief(full)
    verdicts = judge(pairs_of_runs(runs))
    answer = make_answer(runs, found, full.banners, verdicts)
    screen = answer_text.render(answer)
    document = replace(document, answer=screen, answer_page=answer_page.render(answer))
    outputs: list[Output[CompareSource]] = find_parts(compare_figures, "OUTPUT", Output)
    source = CompareSource(runs, tags(runs), _bare(document), document.banners, verdicts)
    made = make_all(outputs, source)
    facts = {"runs": _run_facts(runs), **answer_facts(answer)}
    words = [f"{run.letter} {tag}".strip() for run, tag in zip(runs, source.tags, strict=True)]
    shown = live.render(side_by_side([one.packed for one in each], words))
    return Comparison(full, document, verdicts, as_csv(runs), made, facts, shown)


def _one_run(letter: str, path: Path, runs: int) -> _OneRun:
    """Load, measure and pack a run; its tables, which are large, go when this returns. runs: in the page."""
    loaded = load(path)
    found = kinds_found(loaded)
    run, tables, results = loaded.run, loaded.tables, loaded.results
    title = f"{titles.run_title(run)} · {units.seconds(results.window.work_s)} s"
    banners = run_banners(run, tables, results)
    source = RunSource(run, tables, results, loaded.recorded_tables, loaded.recorded_results, title, banners)
    packing = start_pack(source, found.findings, runs)
    return _OneRun(compared(letter, loaded), found, packing.result())


def _of_sweeps(paths: Sequence[Path]) -> Comparison:
    """Sweeps: the same configurations on two kernels, or at two dates."""
    sweeps = load_compared_sweeps(paths)
    verdicts = judge(sweeps.pairs)
    full = make_sweeps_document(sweeps, verdicts)
    made = make_picture(verdicts, _bare(full), full.banners)
    facts = {"runs": [], **sweep_facts(sweeps)}
    return Comparison(full, brief(full), verdicts, verdicts_as_csv(verdicts), [made], facts)


def _bare(document: Document) -> str:
    """The title of the pictures."""
    return document.title.removeprefix("Seekmeter: ")


def _files(comparison: Comparison, now: datetime) -> dict[str, bytes]:
    """All files of the comparison, in the order in which the terminal and the page list them."""
    document = comparison.document
    facts = {
        "schema": SCHEMA,
        "kind": "compare",
        "made_realtime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        **comparison.facts,
        **as_json(comparison.verdicts),
    }
    files = {
        **({ANSWER: text.encoded(document.answer)} if document.answer else {}),
        "compare.txt": text.encoded(text.render(document)),
        "compare.html": b"",  # it names all others: below
        "compare.csv": comparison.csv.encode("utf-8", "backslashreplace"),
        "compare.json": (json.dumps(facts, indent=1, allow_nan=False) + "\n").encode("ascii"),
    }
    if document.sections != comparison.full.sections:
        files[FULL] = text.encoded(text.render(comparison.full))
    for output in comparison.made:
        files |= output.files
    drawings = [drawing for output in comparison.made for drawing in output.drawings]
    page = html.render(document, drawings, list(files), "the comparison's directory", comparison.live)
    files["compare.html"] = page.encode("utf-8", "backslashreplace")
    return files


def _run_facts(runs: Sequence[Compared]) -> list[dict[str, Any]]:
    """The compared runs, as compare.json has them."""
    return [
        {
            "letter": compared.letter,
            "name": compared.run.name,
            "path": clean(compared.run.open_path.resolve()),
            "state": compared.run.state,
            "command": compared.run.text("command"),
            "emulated": compared.emulated,
        }
        for compared in runs
    ]


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
