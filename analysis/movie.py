# SPDX-License-Identifier: BSD-2-Clause
"""Make the movie of one run: RUN/movie.html."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analysis import units
from analysis.errors import ReportError, TableError
from analysis.figures import disk_panel, movie
from analysis.figures.phase_strip import join_consecutive
from analysis.measures.block.movie_frames import Frames, Overview, make_frames, scan_requests
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
from analysis.tables.store import Stored

FILE = "movie.html"


@dataclass(frozen=True)
class _Times:
    """The movie's times, CLOCK_MONOTONIC. stated: from run.json; else from the requests."""

    start_ns: int
    end_ns: int
    zero_ns: int  # shown as 0 s: the begin of the workload
    stated: bool


def make_movie(path: Path) -> str:
    """Write movie.html into the run directory; returns its path, for the terminal."""
    run = open_run(path)
    try:
        page = _make_page(run, _open_requests(run))
    except TableError as error:
        raise ReportError(f"{run.name} has no requests to show: no block table: {error}") from None
    write_atomic(run.open_path / FILE, page.encode("utf-8", "backslashreplace"))
    return f"{clean(run.path / FILE)}\n"


def _open_requests(run: Run) -> Stored:
    """The block table. ReportError: the run has none, and why."""
    table = open_table(run, block.TABLE)
    if table is None:
        missing = "; ".join(run.missing) if "block" in run.asked else ""
        reason = run.off("block") or missing or run.absent("block")
        raise ReportError(f"{run.name} has no requests to show: {reason}")
    return table


def _make_page(run: Run, table: Stored) -> str:
    """The page of the movie, from two passes over the table."""
    overview = scan_requests(parts(table))
    used = devices.of_numbers(run, sorted(overview.numbers)) if overview.numbers else []
    overview = overview.in_order([device.number for device in used])
    times = _times(run, overview)
    frames = make_frames(overview, parts(table), times.start_ns, times.end_ns, disk_panel.sizes(used))
    if frames is None:
        raise ReportError(f"{run.name} has no request that moved bytes: there is nothing to show")
    captions = movie.Captions(
        title=f"{titles.run_title(run)} · {units.seconds((times.end_ns - times.start_ns) / 1e9)} s",
        subtitle=_subtitle(run, frames, len(used)),
        banners=_banners(run),
        devices=[device.label for device in used],
        time_axis="seconds since the workload started" if times.stated else "seconds since the first request",
        mark=mark(run, "block"),
        phases=_phases(run, times),
        numbers=[device.number for device in used],
        geometry=read_geometry(run),
    )
    return movie.render(frames, captions, times.zero_ns)


def _times(run: Run, overview: Overview) -> _Times:
    """Begin and end of the recording, and begin of the workload."""
    recorded = recorded_time(run)
    start, end = recorded.start_ns, recorded.end_ns
    if start is None or end is None:
        first = overview.first_ns
        last = min(overview.last_ns, first + LONGEST_RUN_NS)
        return _Times(first, max(last, first + 1), first, stated=False)
    work = run.int_("clock", "workload_start_ns")
    return _Times(start, end, work if work is not None and start <= work < end else start, stated=True)


def _phases(run: Run, times: _Times) -> list[movie.Phase]:
    """The phases within the movie; consecutive ones of one name are one."""
    table = load_table(run, phase.TABLE)
    shown = []
    for name, count, begin, end in join_consecutive(table) if table is not None else []:
        begin, end = max(begin, times.start_ns), min(end, times.end_ns)
        if begin <= end:
            label = f"{name} ×{count}" if count > 1 else name
            start_s, end_s = (begin - times.zero_ns) / 1e9, (end - times.zero_ns) / 1e9
            shown.append(movie.Phase(name, label, start_s, end_s))
    return shown[: movie.MOST_PHASES]


def _subtitle(run: Run, frames: Frames, disks: int) -> str:
    """Disk, size of a cell, kernel, requests, date."""
    parts = [
        titles.disk_name(run, disks),
        f"cell {movie.cell_size(frames.grid.cell_sectors)}",
        f"Linux {k}" if (k := run.text("kernel", "release")) else "",
        f"{frames.rows:,} requests",
        run.text("start_realtime")[:10],
    ]
    return " · ".join(part for part in parts if part)


def _banners(run: Run) -> list[str]:
    """Warnings above the picture; losses of other collectors than block do not concern it."""
    banners = make_banners(run, {}, ("block",))
    if run.text("device", "kind") == "directory":
        banners.insert(0, "requests of all programs on this disk are shown; report.txt says whose they are")
    return [banner if len(banner) < 125 else banner[:122] + "..." for banner in banners[:3]]
