# SPDX-License-Identifier: BSD-2-Clause
"""Make the movie of one run: RUN/movie.html."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from analysis import units
from analysis.errors import ReportError, TableError
from analysis.figures import disk_panel, movie
from analysis.figures.device_maps import device_label
from analysis.figures.phase_strip import join_consecutive
from analysis.measures.block.movie_frames import Frames, Overview, make_frames, scan_requests
from analysis.render import titles
from analysis.rundir import devices
from analysis.rundir.files import write_atomic
from analysis.rundir.layout import read_geometry
from analysis.rundir.recorded_time import LONGEST_RUN_NS, recorded_time
from analysis.rundir.run import Run, clean, open_run
from analysis.rundir.stack import read_stack
from analysis.sections.banners import make_banners
from analysis.sections.marks import mark
from analysis.tables import block, phase, volume
from analysis.tables.block_parts import Part, parts
from analysis.tables.load import load_table, open_table
from analysis.tables.rows import take
from analysis.tables.store import Stored

FILE = "movie.html"


@dataclass(frozen=True)
class _Times:
    """The movie's times, CLOCK_MONOTONIC. stated: from run.json; else from the requests."""

    start_ns: int
    end_ns: int
    zero_ns: int  # shown as 0 s: the begin of the workload
    stated: bool


def make_movie(path: Path, by_volume: bool = False) -> str:
    """Write movie.html into the run directory; returns its path, for the terminal.

    by_volume: show the volumes that the file system uses; also without it if no disk is below them.
    """
    run = open_run(path)
    try:
        page = _make_page(run, _open_rows(run, by_volume))
    except TableError as error:
        raise ReportError(f"{run.name} has no requests to show: {error}") from None
    write_atomic(run.open_path / FILE, page.encode("utf-8", "backslashreplace"))
    return f"{clean(run.path / FILE)}\n"


def _open_rows(run: Run, by_volume: bool) -> Callable[[], Iterator[Part]]:
    """What the movie shows, in parts: the disks' requests, or the bios to the file system's volumes.

    A disk that the file system uses beside its volumes (a journal's) is shown with these.

    ReportError: the run has none, and why.
    """
    stack = read_stack(run)
    tops = stack.top_numbers
    bios = open_table(run, volume.TABLE) if tops else None
    if by_volume and bios is None:
        raise ReportError(f"{run.name} has no volume above its disks: leave BY=volume out to see the disks")
    table = open_table(run, block.TABLE)
    if bios is not None and (by_volume or table is None or not table.rows):
        below = {leaf.name for top in stack.tops for leaf in stack.leaves_under(top.name)}
        bare = [node.number for node in stack.root_nodes if node.is_leaf and node.name not in below]
        return lambda: chain(_of(tops, bios), _of(bare, table))
    if table is None:
        missing = "; ".join(run.missing) if "block" in run.asked else ""
        reason = run.off("block") or missing or run.absent("block")
        raise ReportError(f"{run.name} has no requests to show: {reason}")
    return lambda: parts(table)


def _of(numbers: Sequence[int], table: Stored | None) -> Iterator[Part]:
    """The rows of these devices."""
    if table is not None and numbers:
        yield from (take(part, np.isin(part.dev, numbers)) for part in parts(table))


def _make_page(run: Run, rows: Callable[[], Iterator[Part]]) -> str:
    """The page of the movie, from two passes over the rows."""
    overview = scan_requests(rows())
    used = devices.of_numbers(run, sorted(overview.numbers)) if overview.numbers else []
    overview = overview.in_order([device.number for device in used])
    times = _times(run, overview)
    frames = make_frames(overview, rows(), times.start_ns, times.end_ns, disk_panel.sizes(used))
    if frames is None:
        raise ReportError(f"{run.name} has no request that moved bytes: there is nothing to show")
    stack = read_stack(run)
    captions = movie.Captions(
        title=f"{titles.run_title(run)} · {units.seconds((times.end_ns - times.start_ns) / 1e9)} s",
        subtitle=_subtitle(run, frames, len(used)),
        banners=_banners(run),
        devices=[device_label(device, stack) for device in used],
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
        titles.disk_name(run, 0 if disks == 1 else disks),
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
