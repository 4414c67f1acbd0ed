# SPDX-License-Identifier: BSD-2-Clause
"""Make the movie of one run: RUN/movie.html."""

from __future__ import annotations

from pathlib import Path

from analysis import units
from analysis.errors import ReportError, TableError
from analysis.figures import disk_panel, movie
from analysis.figures.phase_strip import runs_of_names
from analysis.measures.block.movie_frames import Frames, Overview, look_over, make_frames
from analysis.render import titles
from analysis.rundir import devices
from analysis.rundir.files import write_atomic
from analysis.rundir.layout import read_geometry
from analysis.rundir.recorded_time import LONGEST_RUN_NS, recorded_time
from analysis.rundir.run import Run, clean, open_run
from analysis.sections.banners import make_banners
from analysis.sections.marks import mark
from analysis.tables import block, phase
from analysis.tables.block_parts import parts
from analysis.tables.load import load_table, open_table

FILE = "movie.html"


def _window(run: Run, found: Overview) -> tuple[int, int, int, bool]:
    """Begin and end of the recording and begin of the workload; does run.json say so, or the requests?"""
    recorded = recorded_time(run)
    start, end = recorded.start_ns, recorded.end_ns
    if start is None or end is None:
        last = min(found.last_ns, found.first_ns + LONGEST_RUN_NS)
        return found.first_ns, max(last, found.first_ns + 1), found.first_ns, False
    work = run.int_("clock", "workload_start_ns")
    return start, end, work if work is not None and start <= work < end else start, True


def _phases(run: Run, zero_ns: int, start_ns: int, end_ns: int) -> list[movie.Phase]:
    """The phases, those of one name in a row as one, as far as the picture goes."""
    table = load_table(run, phase.TABLE)
    found = []
    for name, times, begin, end in runs_of_names(table) if table is not None else []:
        begin, end = max(begin, start_ns), min(end, end_ns)
        if begin <= end:
            label = f"{name} ×{times}" if times > 1 else name
            found.append(movie.Phase(name, label, (begin - zero_ns) / 1e9, (end - zero_ns) / 1e9))
    return found[: movie.MOST_PHASES]


def _subtitle(run: Run, frames: Frames) -> str:
    size = run.int_("device", "size_bytes")
    parts = [
        " ".join(p for p in (run.text("device", "name"), f"({units.bytes_(size)})" if size else "") if p),
        f"cell {movie.cell_words(frames.grid.cell_sectors)}",
        f"Linux {k}" if (k := run.text("kernel", "release")) else "",
        f"{frames.rows:,} requests",
        run.text("start_realtime")[:10],
    ]
    return " · ".join(part for part in parts if part)


def _banners(run: Run) -> list[str]:
    """What must be said before anything else; what other collectors lost does not matter here."""
    said = make_banners(run, {}, ("block",))
    if run.text("device", "kind") == "directory":
        said.insert(0, "everybody's requests on this disk are shown; report.txt says whose they are")
    return [words if len(words) < 125 else words[:122] + "..." for words in said[:3]]


def make_movie(path: Path) -> str:
    """Write RUN/movie.html; returns what to print."""
    run = open_run(path)
    try:
        return _make(run)
    except TableError as error:
        raise ReportError(f"{run.name} has no requests to show: no block table: {error}") from None


def _make(run: Run) -> str:
    table = open_table(run, block.TABLE)
    if table is None:
        gaps = "; ".join(run.missing) if "block" in run.asked else ""
        why = run.off("block") or gaps or run.absent("block")
        raise ReportError(f"{run.name} has no requests to show: {why}")
    found = look_over(parts(table))
    of = devices.of_numbers(run, sorted(found.numbers)) if found.numbers else []
    found = found.in_order([device.number for device in of])
    start, end, zero, stated = _window(run, found)
    frames = make_frames(found, parts(table), start, end, disk_panel.sizes(of))
    if frames is None:
        raise ReportError(f"{run.name} has no request that moved bytes: there is nothing to show")
    title = titles.run_title(run)
    words = movie.Captions(
        title=f"{title} · {units.seconds((end - start) / 1e9)} s",
        subtitle=_subtitle(run, frames),
        banners=_banners(run),
        devices=[device.label for device in of],
        time="seconds since the workload started" if stated else "seconds since the first request",
        mark=mark(run, "block"),
        phases=_phases(run, zero, start, end),
        numbers=[device.number for device in of],
        geometry=read_geometry(run),
    )
    page = movie.render(frames, words, zero)
    write_atomic(run.place / FILE, page.encode("utf-8", "backslashreplace"))
    return f"{clean(run.path / FILE)}\n"
