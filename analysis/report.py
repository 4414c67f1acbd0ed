# SPDX-License-Identifier: BSD-2-Clause
"""Make the report of one run: open its directory, load the tables, measure, draw, write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from analysis import units
from analysis.answer import findings_json
from analysis.answer import page as answer_page
from analysis.answer import text as answer_text
from analysis.answer.answer import make_answer
from analysis.answer.detail import arranged
from analysis.discovery import find_parts
from analysis.errors import ReportError
from analysis.exporters import with_report
from analysis.figures import run as run_figures
from analysis.findings.rule import Case, Found, find_all, find_rules
from analysis.measures.block import drive_cost
from analysis.measures.clip import measure_clipped
from analysis.measures.ledger import measure_ledger, usable_path
from analysis.measures.results import measure
from analysis.page import live
from analysis.page.packed import PackedRun, start_pack
from analysis.render import html, text, titles
from analysis.render.document import Document
from analysis.render.output import Made, Output, RunSource, make_all, write_files
from analysis.rundir.run import Run, open_run
from analysis.sections.document import make_document
from analysis.tables.load import Tables, load_tables

NAMED = ("report.txt", "report.html", "iograph.png", "iograph.svg")  # files that the terminal names
ANSWER = "answer.txt"  # the first screen alone, for a mail
CONSOLE = "raw/console.log"  # what the guest of a run in a virtual machine printed


def make_report(
    path: Path, everyones_locks: bool = False, drive: drive_cost.Drive | None = None, by_volume: bool = False
) -> str:
    """Write the report's files into the run directory; returns what the terminal shows.

    everyones_locks: show the lock waits of all tasks, not only the workload's and its file system's.
    drive: cost the requests on this drive's model, too.
    by_volume: disk maps of the volume that the file system is on, not of the disks below.
    """
    run = open_run(path)
    source, document = _measure(run, everyones_locks, drive)
    document, found, answer_files = _answer(source, document)
    if by_volume:
        source = _by_volume(source)
    packed = start_pack(source, found.findings)
    outputs = _outputs()
    made = make_all(outputs, source)
    _write(run, document, outputs, made, source.tables, answer_files, packed.result())
    named = [*NAMED, *_recorded_logs(run)]
    return text.essence(document, [run.path / name for name in named])


def make_answer_alone(path: Path) -> str:
    """Write the answer's files into the run directory, no pictures; returns the first screen."""
    run = open_run(path)
    source, document = _measure(run, everyones_locks=False)
    document, _, files = _answer(source, document)
    write_files(run.open_path, files)
    return document.answer


def _measure(
    run: Run, everyones_locks: bool, drive: drive_cost.Drive | None = None
) -> tuple[RunSource, Document]:
    """Load and measure the run; clip both to the workload's time where mkfs or fsck were recorded too."""
    recorded = load_tables(run)
    recorded_results = measure(run, recorded, everyones_locks=everyones_locks)
    tables, results = measure_clipped(run, recorded, recorded_results, everyones_locks)
    if drive is not None and tables.block is not None and results.block is not None:
        on_drive = drive_cost.measure(tables.block, drive)
        results = replace(results, block=replace(results.block, on_drive=on_drive))
    document = make_document(run, tables, results)
    title = f"{titles.run_title(run)} · {units.seconds(results.window.work_s)} s"
    source = RunSource(run, tables, results, recorded, recorded_results, title, document.banners)
    return source, document


def _answer(source: RunSource, document: Document) -> tuple[Document, Found, dict[str, bytes]]:
    """Ask the rules; returns the document as the answer arranges it, what was found, and further files."""
    results = replace(source.results, path=usable_path(source.results.path, source.results.threads))
    ledger = measure_ledger(results.path, results.threads, results.window.work_s)
    case = Case(source.run, source.tables, results, ledger)
    found = find_all(find_rules(), case)
    arranged_document = arranged(document, case, found.findings)
    answer = make_answer(case, found, arranged_document)
    screen = answer_text.render(answer)
    files = {
        ANSWER: text.encoded(screen),
        text.DETAIL: text.encoded(text.render(document)),
        findings_json.NAME: findings_json.encoded(case, found),
    }
    return replace(arranged_document, answer=screen, answer_page=answer_page.render(answer)), found, files


def _by_volume(source: RunSource) -> RunSource:
    """The source with the file system's view. ReportError: its file system is on no volume."""
    if source.recorded_results.below is None:
        raise ReportError(
            f"{source.run.name} has no volume above its disks: leave BY=volume out to see the disks"
        )
    return replace(source, by_volume=True)


def _outputs() -> list[Output[RunSource]]:
    """All pictures, then the files for other tools, each in their order."""
    return [
        *find_parts(run_figures, "OUTPUT", Output),
        *find_parts(with_report, "OUTPUT", Output),
    ]


def _recorded_logs(run: Run) -> list[str]:
    """The guest's console, for a run in a virtual machine that has one."""
    return [CONSOLE] if (run.open_path / CONSOLE).is_file() else []


def _write(
    run: Run,
    document: Document,
    outputs: list[Output[RunSource]],
    made: list[Made],
    tables: Tables,
    answer_files: Mapping[str, bytes],
    packed: PackedRun,
) -> None:
    """Write report.txt, the outputs' files and, last, the page that names and shows them."""
    files = {"report.txt": text.encoded(text.render(document)), **answer_files}
    for output in made:
        files |= output.files
    names = [
        *("report.txt", "report.html"),
        *(name for name in files if name != "report.txt"),
        *(f"tables/{table}.parquet" for table in tables.rows),
        *_recorded_logs(run),
    ]
    drawings = [drawing for output in made for drawing in output.drawings]
    page = html.render(document, drawings, names, "the run directory", live.render([packed]))
    files["report.html"] = page.encode("utf-8", "backslashreplace")
    write_files(run.open_path, files, [name for output in outputs for name in output.names])
