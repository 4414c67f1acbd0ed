# SPDX-License-Identifier: BSD-2-Clause
"""The workload's progress over time, a track for each phase name: what it moved or called, bin by bin.

Progress is bytes of reads and writes on the file system under test, where most bins move any; else its calls.
Bins are those of the recorder, cut at phases. Phases of one name are put behind each other: time between
phases is in no track, and where phases overlap the one that began last has the bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from analysis.measures.app.throughput import middle_ns, moves_bytes, on_target
from analysis.measures.common.intervals import clipped
from analysis.measures.common.timeline import F64
from analysis.measures.common.window import QUANTUM_NS, Window
from analysis.measures.critical_path.sums import phase_of
from analysis.tables.call import Call
from analysis.tables.phase import Phases
from analysis.tables.store import I64

BYTES, CALLS = "bytes", "calls"
MOVING_LEAST = 0.9  # share of the bins with calls that move bytes, where bytes are the progress
BINS_MOST = 50_000  # of a run; longer ones get longer bins


@dataclass(frozen=True)
class Track:
    """Progress in one phase. Bins ascend, and may have gaps between two phases of the name."""

    phase: str  # "": the run has no phases
    phases: int
    start_ns: I64
    end_ns: I64
    unit: str  # BYTES, CALLS
    progress: I64  # in that unit, per bin
    calls: I64  # of the calls that make the progress, per bin
    kinds: Sequence[str]  # names of calls
    kind_calls: I64  # kinds x bins
    kind_ns: I64  # time in these calls, of all threads

    length_ns: I64  # of each bin without gaps in it

    @property
    def rate(self) -> F64:
        """Progress per second of each bin."""
        return np.asarray(self.progress / (self.length_ns / 1e9))

    @property
    def seconds(self) -> float:
        """Length of all bins."""
        return float(self.length_ns.sum()) / 1e9

    def kept(self, bins: I64) -> Track:
        """Only these bins."""
        return replace(
            self,
            start_ns=self.start_ns[bins],
            end_ns=self.end_ns[bins],
            length_ns=self.length_ns[bins],
            progress=self.progress[bins],
            calls=self.calls[bins],
            kind_calls=self.kind_calls[:, bins],
            kind_ns=self.kind_ns[:, bins],
        )

    def joined(self, first: I64) -> Track:
        """The same with longer bins: each from one of the bins `first` to before the next."""
        last = np.concatenate((first[1:], [self.start_ns.size])) - 1
        return replace(
            self,
            start_ns=self.start_ns[first],
            end_ns=self.end_ns[last],
            length_ns=np.add.reduceat(self.length_ns, first),
            progress=np.add.reduceat(self.progress, first),
            calls=np.add.reduceat(self.calls, first),
            kind_calls=np.add.reduceat(self.kind_calls, first, axis=1),
            kind_ns=np.add.reduceat(self.kind_ns, first, axis=1),
        )


def _edges(call: Call, window: Window, phases: Phases | None) -> tuple[I64, I64]:
    """Bins of the recorder's grid, cut at the phases' borders; slivers are joined to the bin before them."""
    usual = int(call.bin_length_ns.max()) if call.bin_length_ns.size else QUANTUM_NS
    usual = min(max(usual, 1), window.work_end_ns - window.work_start_ns)
    width = usual * max(1, -(-(window.work_end_ns - window.work_start_ns) // (usual * BINS_MOST)))
    whole = call.bin_ns[call.bin_length_ns == usual]
    origin = int(whole[0]) % width if whole.size else 0
    begin, end = window.work_start_ns, window.work_end_ns
    spans = [(begin, end)]
    if phases is not None and phases.name:
        known = [(int(a), int(b)) for a, b in zip(phases.from_ns, phases.until_ns, strict=True) if b > a]
        borders = sorted({edge for span in clipped(known, begin, end) for edge in span} | {begin, end})
        spans = list(pairwise(borders))
    starts, ends = [], []
    for a, b in spans:
        first = (a - origin) // width * width + origin + width
        inner = np.arange(first, b, width, dtype=np.int64)
        edges = np.concatenate(([a], inner, [b]))
        if edges.size > 2 and edges[1] - edges[0] < width // 2:
            edges = np.delete(edges, 1)
        if edges.size > 2 and edges[-1] - edges[-2] < width // 2:
            edges = np.delete(edges, -2)
        starts.append(edges[:-1])
        ends.append(edges[1:])
    return np.concatenate(starts).astype(np.int64), np.concatenate(ends).astype(np.int64)


def measure_tracks(call: Call, phases: Phases | None, window: Window) -> list[Track]:
    """The tracks, in order of time."""
    start, end = _edges(call, window, phases)
    names = [""]
    of_bin = np.zeros(start.size, dtype=np.int64)
    counts = [1]
    if phases is not None and phases.name:
        names = list(dict.fromkeys(phases.name))
        number = np.array([*(names.index(name) for name in phases.name), -1], dtype=np.int64)
        of_bin = number[phase_of(phases, (start + end) // 2)]
        counts = [phases.name.count(name) for name in names]
    middle = middle_ns(call)
    at = np.searchsorted(start, middle, side="right") - 1
    rows = np.flatnonzero(on_target(call) & (at >= 0) & (middle < end[np.maximum(at, 0)]))
    at = at[rows]
    moving = (moves_bytes(call, "read") | moves_bytes(call, "write"))[rows]

    def sums(values: I64) -> I64:
        total = np.zeros(start.size, dtype=np.int64)
        np.add.at(total, at, values)
        return total

    calls = sums(call.count[rows])
    moved = sums(np.where(moving, call.bytes[rows], 0))
    movers = sums(np.where(moving, call.count[rows], 0))
    used = np.unique(call.call.codes[rows])
    kinds = [call.call.labels[code] for code in used.tolist()]
    of_kind = np.searchsorted(used, call.call.codes[rows])
    kind_calls, kind_ns = (np.zeros((used.size, start.size), dtype=np.int64) for _ in range(2))
    np.add.at(kind_calls, (of_kind, at), call.count[rows])
    np.add.at(kind_ns, (of_kind, at), call.total_ns[rows])
    tracks = []
    for number_, name in enumerate(names):
        mine = np.flatnonzero(of_bin == number_)
        if not mine.size:
            continue
        active = calls[mine] > 0
        is_bytes = bool(active.any()) and float((moved[mine][active] > 0).mean()) >= MOVING_LEAST
        tracks.append(
            Track(
                name,
                counts[number_],
                start[mine],
                end[mine],
                BYTES if is_bytes else CALLS,
                (moved if is_bytes else calls)[mine],
                (movers if is_bytes else calls)[mine],
                kinds,
                kind_calls[:, mine],
                kind_ns[:, mine],
                (end - start)[mine],
            )
        )
    return tracks
