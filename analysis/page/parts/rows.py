# SPDX-License-Identifier: BSD-2-Clause
"""Single requests: all of them where they fit into the page.

Else all requests of short windows: of dips and findings first, then around the slowest requests; and from the
rest of the run the slowest of each operation and class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.common.sort import order
from analysis.page.columns import EXACT, Column, Texts, deflated_bytes
from analysis.page.data import Asked, Content, Mark, Part, Rows
from analysis.page.request_bins import US
from analysis.page.request_files import FilesOfRequests, named_files
from analysis.page.requests import Requests, disks_of
from analysis.rundir.run import clean
from analysis.tables.block import parts
from analysis.tables.store import I64, Ints

MOST_ROWS = 1_200_000
SLOWEST = 2000  # of each operation and class
MOST_THREADS = 2000
SAMPLE_ROWS = 50_000  # packed to learn what a row takes
MARGIN = 0.96  # of the bytes that are left: rows differ in what they take
NAMES_SHARE = 1 / 16  # of the bytes that are left, for names of files
PART_ROWS = 1 << 18
FIRST_MARKS = ("stop", "dip")  # then findings, then others
MARKS = (*FIRST_MARKS, "finding", "commit")
WINDOWS_SHARE = 0.5  # of the rows, for windows of marks
AROUND_ROWS = 2000  # of a window around a slow request
IS_SEEK, IS_TIMED = 1, 2


@dataclass(frozen=True)
class _Shown:
    """The requests that may be shown, in the order of their issue. rows: in the table."""

    requests: Requests
    files: FilesOfRequests | None
    rows: Ints
    t_ns: I64  # since the zero


def _shown(asked: Asked, requests: Requests) -> _Shown:
    block = requests.block
    is_shown = np.empty(block.rows, dtype=np.bool_)
    for at in parts(block.rows, PART_ROWS):
        is_shown[at] = requests.is_shown(at)
    rows = order(block.issue_ns, is_shown)
    t_ns = np.empty(rows.size, dtype=np.int64)
    for at in parts(rows.size, PART_ROWS):
        t_ns[at] = block.issue_ns[rows[at]] - requests.zero_ns
    files = named_files(asked, requests, int(asked.budget.left_bytes * NAMES_SHARE))
    return _Shown(requests, files, rows, t_ns)


def _held(values: I64 | Ints, missing: int) -> I64:
    """The values; `missing` for those that a page cannot hold exactly."""
    wide = values.astype(np.int64)
    return np.where((wide <= EXACT // 2) & (wide >= -EXACT // 2), wide, missing)


def _rows(shown: _Shown, index: npt.NDArray[np.integer], complete: Sequence[tuple[int, int]]) -> Rows:
    """The requests at these places of the order of issue, ascending."""
    requests, block, rows = shown.requests, shown.requests.block, shown.rows[index]
    numbers, dev = np.unique(block.dev[rows], return_inverse=True)
    timed = block.timed[rows]
    issue = block.issue_ns[rows]
    threads, thread = _threads(requests, rows)
    flags = requests.is_seek[rows] * IS_SEEK + timed * IS_TIMED
    return Rows(
        count=int(rows.size),
        recorded=int(shown.rows.size),
        complete=list(complete),
        t_us=Column(shown.t_ns[index] // US, "ds"),
        kind=Column(requests.keys.codes[rows].astype(np.int64)),
        dev=Column(dev.reshape(-1).astype(np.int64)),
        devs=[int(number) for number in numbers],
        sector=Column(_held(block.sector[rows], -1), "s"),
        bytes=Column(_held(block.bytes[rows], 0), "s"),
        q2d_ns=Column(_held(np.where(timed, issue - block.queue_ns[rows], -1), -1), "s"),
        d2c_ns=Column(_held(np.where(timed, block.complete_ns[rows] - issue, -1), -1), "s"),
        file=Column(
            np.zeros(rows.size, dtype=np.int64)
            if shown.files is None
            else shown.files.codes[rows].astype(np.int64)
        ),
        files=Texts([] if shown.files is None else shown.files.names),
        thread=Column(thread),
        threads=threads,
        flags=Column(flags.astype(np.int64)),
    )


def _threads(requests: Requests, rows: Ints) -> tuple[list[str], I64]:
    """Names of the threads that submitted these requests, most first; the index of each request's."""
    codes = requests.block.comm.codes[rows].astype(np.int64)
    counts = np.bincount(codes, minlength=len(requests.block.comm.labels))
    by_count = np.argsort(-counts, kind="stable")[: min(int((counts > 0).sum()), MOST_THREADS)]
    number = np.full(max(counts.size, 1), by_count.size, dtype=np.int64)
    number[by_count] = np.arange(by_count.size)
    names = [clean(requests.block.comm.labels[code], 60) for code in by_count.tolist()]
    is_more = int((counts > 0).sum()) > by_count.size
    return [*names, "others"] if is_more else names, number[codes]


def _deflated(rows: Rows) -> int:
    return deflated_bytes([value for value in vars(rows).values() if isinstance(value, Column | Texts)])


def _affordable(shown: _Shown, most_bytes: int) -> int:
    """How many rows fit, judged by pieces of the run."""
    count = int(shown.rows.size)
    pieces = 5
    size = min(SAMPLE_ROWS // pieces, max(count // pieces, 1))
    starts = np.linspace(0, max(count - size, 0), pieces).astype(np.int64)
    index = np.unique(np.concatenate([np.arange(start, min(start + size, count)) for start in starts]))
    sample = _rows(shown, index, [])
    names_bytes = deflated_bytes([sample.files])
    per_row = max((_deflated(sample) - names_bytes) / max(index.size, 1), 0.1)
    return min(int((most_bytes * MARGIN - names_bytes) / per_row), MOST_ROWS)


def _slowest(shown: _Shown) -> I64:
    """Places, in the order of issue, of the slowest requests of each operation and class."""
    requests, block = shown.requests, shown.requests.block
    kinds = requests.kinds
    none = np.zeros(0, dtype=np.int64)
    found = dict.fromkeys(range(kinds.count), (none, none))
    least = np.full(kinds.count, -1, dtype=np.int64)  # of the slowest of each kind, once they are SLOWEST
    for at in parts(block.rows, PART_ROWS):
        latency = requests.q2c_ns(at)
        may_be = np.flatnonzero(block.timed[at] & requests.is_shown(at) & (latency > least[kinds.codes[at]]))
        kind_of = kinds.codes[at][may_be]
        for kind in np.unique(kind_of).tolist():
            rows = may_be[kind_of == kind]
            latencies = np.concatenate((found[kind][1], latency[rows]))
            most = np.argsort(-latencies, kind="stable")[:SLOWEST]
            found[kind] = np.concatenate((found[kind][0], rows + at.start))[most], latencies[most]
            if most.size == SLOWEST:
                least[kind] = latencies[most[-1]]
    is_slow = np.zeros(block.rows, dtype=np.bool_)
    for rows, _ in found.values():
        is_slow[rows] = True
    places = np.flatnonzero(is_slow[shown.rows])
    slow = shown.rows[places]
    latency = block.complete_ns[slow] - block.queue_ns[slow]
    return np.asarray(places[np.argsort(-latency, kind="stable")])


class _Chosen:
    """Windows of the order of issue, of which all requests are shown, and single requests besides."""

    def __init__(self, shown: _Shown, most: int) -> None:
        self._shown = shown
        self.left = most
        self.is_chosen = np.zeros(shown.rows.size, dtype=np.bool_)
        self.windows: list[tuple[int, int]] = []

    def add_window(self, start_ns: int, end_ns: int, most: int) -> None:
        """Choose all requests of a window, widened to whole microseconds, if they are few enough."""
        start, end = start_ns // US * US, -(-end_ns // US) * US
        first, last = (int(np.searchsorted(self._shown.t_ns, edge)) for edge in (start, end))
        new = last - first - int(self.is_chosen[first:last].sum())
        if start < end and new <= min(self.left, most):
            self.is_chosen[first:last] = True
            self.windows.append((start, end))
            self.left -= new

    def add(self, places: I64) -> None:
        """Choose single requests, as many as there is room for."""
        new = places[~self.is_chosen[places]][: self.left]
        self.is_chosen[new] = True
        self.left -= int(new.size)

    def complete(self) -> list[tuple[int, int]]:
        """The windows, those that touch as one."""
        joined: list[tuple[int, int]] = []
        for start, end in sorted(self.windows):
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], end)
            else:
                joined.append((start, end))
        return joined


def _in_turn(mark: Mark) -> tuple[int, int]:
    """Dips first, then findings; of each kind the shortest first."""
    return MARKS.index(mark.kind), mark.end_ns - mark.start_ns


def _choose(asked: Asked, shown: _Shown, most: int) -> _Chosen:
    """Windows and slow requests, at most so many."""
    chosen = _Chosen(shown, most)
    slowest = _slowest(shown)
    chosen.add(slowest)
    low, high = shown.requests.grid.start_ns, shown.requests.grid.end_ns
    for mark in sorted((mark for mark in asked.marks if mark.kind in MARKS), key=_in_turn):
        chosen.add_window(max(mark.start_ns, low), min(mark.end_ns, high), int(most * WINDOWS_SHARE))
    # what is left goes to windows around the slowest requests: there the view can be zoomed to single ones
    for place in slowest.tolist():
        if chosen.left < AROUND_ROWS:
            break
        first, last = max(place - AROUND_ROWS // 2, 0), min(place + AROUND_ROWS // 2, shown.rows.size - 1)
        chosen.add_window(int(shown.t_ns[first]), int(shown.t_ns[last]), AROUND_ROWS * 2)
    return chosen


def make(asked: Asked) -> Content:
    """The rows, as many as the page has room for."""
    requests = disks_of(asked)
    if requests is None or not requests.block.rows:
        return Content()
    shown = _shown(asked, requests)
    count = int(shown.rows.size)
    whole = (requests.grid.start_ns, requests.grid.end_ns)
    most = _affordable(shown, asked.budget.left_bytes)
    if count <= most:
        rows = _rows(shown, np.arange(count), [whole])
        if _deflated(rows) <= asked.budget.left_bytes:
            return Content(rows=rows, notes=["single requests: all, exact in any window"])
        most = count - 1
    while True:
        chosen = _choose(asked, shown, most)
        rows = _rows(shown, np.flatnonzero(chosen.is_chosen), chosen.complete())
        size = _deflated(rows)
        if size <= asked.budget.left_bytes or most < SLOWEST:
            break
        most = int(most * asked.budget.left_bytes / size * MARGIN)
    text = (
        f"single requests: {rows.count:,} of {count:,}: all of {len(rows.complete):,} windows (of dips and"
        f" findings, around slow requests), and the slowest {SLOWEST:,} of each operation and class;"
        " elsewhere sums of time bins"
    )
    return Content(rows=rows, notes=[text], left_out=[f"{count - rows.count:,} of {count:,} single requests"])


PART = Part("rows", 900, make)
