# SPDX-License-Identifier: BSD-2-Clause
"""Make all reports of one run: open it, load its tables, measure, draw, write."""

from __future__ import annotations

from pathlib import Path

from analysis import units
from analysis.figures.run import distributions, iograph, lock_flamegraphs
from analysis.fork import ForkedTask
from analysis.measures.clip import measure_clipped
from analysis.measures.results import Results, measure
from analysis.render import html, text, titles
from analysis.rundir.files import remove, write_atomic
from analysis.rundir.run import Run, open_run
from analysis.sections import cpu_profile, request_owners
from analysis.sections.content import make_document
from analysis.tables.load import load_tables

IOGRAPH = "IO graph: disk offset, throughput, rates, latency, queue depth, lock waits and memory over time"
DISTRIBUTIONS = "Distributions of request latency by operation, of seek distance and of request size by class"
# what the terminal shows of the text; the rest is in the file
ESSENCE = (
    "Where the time went",
    request_owners.TITLE,
    "Throughput",
    "Seeks",
    "Request latency",
    "Lock waits",
    "Where the CPU went",
    "Warnings and gaps",
)
FILES = ("report.txt", "report.html", "iograph.png", "iograph.svg")
CONSOLE = "raw/console.log"  # what the guest of a run in a virtual machine said


def subtitle(run: Run, results: Results) -> str:
    """What the picture's second line says: disk, kernel, totals."""
    size = run.int_("device", "size_bytes")
    moved = sum(row.bytes for row in results.device_totals if row.op in ("read", "write"))
    requests = sum(row.requests for row in results.device_totals)
    scheduler = run.text("device", "scheduler")
    parts = [
        " ".join(p for p in (run.text("device", "name"), f"({units.bytes_(size)})" if size else "") if p),
        f"scheduler {scheduler}" if scheduler else "",
        f"Linux {k}" if (k := run.text("kernel", "release")) else "",
        f"{run.cpus} CPUs" if run.cpus else "",
        request_owners.totals(results, requests, moved) if results.block is not None else "",
        run.text("start_realtime")[:10],
    ]
    line = " · ".join(part for part in parts if part)
    return line if len(line) <= 120 else line[:117] + "..."


def make_report(path: Path, everyones_locks: bool = False) -> str:
    """Write the reports into RUN; returns what to print: the text's essence and where the files are.

    everyones_locks: with the waits for locks of all that ran on the machine.
    """
    run = open_run(path)
    tables = load_tables(run)
    whole = measure(run, tables, everyones_locks=everyones_locks)
    recorded, (tables, results) = tables, measure_clipped(run, tables, whole, everyones_locks)
    document = make_document(run, tables, results)
    title = f"{titles.run_title(run)} · {units.seconds(results.window.work_s)} s"
    drawing = ForkedTask(lambda: distributions.render(results))
    png, svg = iograph.render(run, recorded, whole, title, subtitle(run, whole), document.banners)
    del recorded, whole
    files = [*FILES, *(f"tables/{table}.parquet" for table in tables.rows)]
    shown = list(FILES)
    if (run.place / CONSOLE).is_file():
        files.append(CONSOLE)
        shown.append(CONSOLE)
    write_atomic(run.place / "report.txt", text.encoded(text.render(document)))
    write_atomic(run.place / "iograph.png", png)
    write_atomic(run.place / "iograph.svg", svg)
    shapes = drawing.result()
    if shapes is not None:
        write_atomic(run.place / "distributions.png", shapes[0])
        files.insert(len(FILES), "distributions.png")
    pictures = [(IOGRAPH, svg), *([(DISTRIBUTIONS, shapes[1])] if shapes else [])]
    lock_files = lock_flamegraphs.make(tables, results)
    for name in lock_flamegraphs.NAMES:
        if lock_files is not None and name in lock_files.files:
            write_atomic(run.place / name, lock_files.files[name])
            files.insert(-len(tables.rows), name)
        else:
            remove(run.place / name)  # of a report before
    if lock_files is not None:
        pictures += [(words, lock_files.files[name]) for words, name in lock_files.pictures]
    cpu_files = cpu_profile.files(results)
    for name in cpu_profile.NAMES:
        if name in cpu_files:
            write_atomic(run.place / name, cpu_files[name])
            files.insert(-len(tables.rows), name)
        else:
            remove(run.place / name)
    if cpu_files:
        pictures.append((cpu_profile.PICTURE, cpu_files["on_cpu.svg"]))
    inline = (*lock_flamegraphs.INLINE, cpu_profile.PICTURE)
    page = html.render(document, pictures, files, "the run directory", inline)
    write_atomic(run.place / "report.html", page.encode("utf-8", "backslashreplace"))
    return text.essence(document, ESSENCE, [run.path / name for name in shown])
