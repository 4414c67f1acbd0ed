# SPDX-License-Identifier: BSD-2-Clause
"""Requests, and bios to volumes, as slices from issue to completion: a track for each class of a device, as
many lanes as were under way at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.exporters.perfetto.lanes import lanes
from analysis.exporters.perfetto.trace_file import EVENT_NAMES, Annotation, TraceFile
from analysis.rundir import devices
from analysis.rundir.device_number import device_text
from analysis.rundir.run import Run
from analysis.tables.store import I64, Ints, Stored

LOT = 1 << 19  # rows whose further columns are in memory at once
MOST_NS = 1 << 62


@dataclass(frozen=True)
class Counts:
    """Rows written as slices, without a completion, and with impossible times."""

    slices: int
    unfinished: int
    bad: int


def write_requests(trace: TraceFile, run: Run, stored: Stored, rank: int) -> Counts:
    """Write the table block or volume."""
    is_bio = stored.name == "volume"
    begin = stored.ints("queue_ns" if is_bio else "issue_ns")
    end = stored.ints("complete_ns")
    is_bad = (begin <= 0) | (begin > MOST_NS) | (end > MOST_NS) | ((end != 0) & (end < begin))
    is_open = (end == 0) & ~is_bad
    dev, class_ = stored.small_ints("dev"), stored.categorical("class")
    numbers = np.unique(dev).tolist()
    named = {device.number: device.label for device in devices.of_numbers(run, numbers)}
    track = np.zeros(begin.size, dtype=np.int32)
    group = (
        dev.astype(np.int64) * len(class_.labels) + class_.codes
        if begin.size
        else np.zeros(0, dtype=np.int64)
    )
    what = "bios" if is_bio else "requests"
    is_slice = ~is_bad & ~is_open
    for place, number in enumerate(numbers):
        name = named.get(number) or device_text(number)
        parent = trace.track(f"{what}: {name}", rank=rank + place)
        for code, label in enumerate(class_.labels):
            rows = np.flatnonzero((group == number * len(class_.labels) + code) & is_slice)
            if rows.size:
                lane = lanes(begin[rows], end[rows])
                ids = [trace.track(label, parent, code) for _ in range(int(lane.max()) + 1)]
                track[rows] = np.array(ids, dtype=np.int32)[lane]
        rows = np.flatnonzero((dev == number) & is_open)
        if rows.size:
            track[rows] = trace.track("completion not seen", parent, len(class_.labels))
    del group
    _write_rows(trace, stored, begin, end, track, is_slice, is_bio, True)
    _write_rows(trace, stored, begin, end, track, is_open, is_bio, False)
    return Counts(int(is_slice.sum()), int(is_open.sum()), int(is_bad.sum()))


def _write_rows(
    trace: TraceFile,
    stored: Stored,
    begin: I64,
    end: I64,
    track: Ints,
    is_row: npt.NDArray[np.bool_],
    is_bio: bool,
    are_slices: bool,
) -> None:
    """Write the rows of is_row, in their order, with what the table says of each."""
    if not is_row.any():
        return
    op, comm, why = (stored.categorical(name) for name in ("op", "comm", "why"))
    sector, size, pid = stored.ints("sector"), stored.small_ints("bytes"), stored.small_ints("pid")
    queue, ino = stored.ints("queue_ns"), stored.small_ints("ino")
    names = trace.intern_all(EVENT_NAMES, op.labels)
    for at in range(0, is_row.size, LOT):
        lot = at + np.flatnonzero(is_row[at : at + LOT])
        annotations = [
            Annotation("bytes", size[lot]),
            Annotation("sector", sector[lot]),
            Annotation("tid", pid[lot]),
            Annotation("thread", comm.codes[lot], comm.labels),
            Annotation("why", why.codes[lot], why.labels),
            Annotation("inode", ino[lot], is_absent=ino[lot] == 0),
        ]
        if not is_bio:
            queued = begin[lot] - queue[lot]
            is_known = (queue[lot] > 0) & (queued >= 0)
            annotations.append(Annotation("queued ns", np.where(is_known, queued, 0), is_absent=~is_known))
        if are_slices:
            trace.slices(track[lot], names[op.codes[lot]], begin[lot], end[lot], annotations)
        else:
            trace.instants(track[lot], names[op.codes[lot]], begin[lot], annotations)
