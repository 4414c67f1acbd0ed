# SPDX-License-Identifier: BSD-2-Clause
"""Pieces of the critical path, and how the walk collects them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.measures.critical_path.stretches import I32, NONE, U8, Mask
from analysis.tables.store import I64

Columns = dict[str, npt.NDArray[Any]]
OF_END = ("thread", "interval", "request", "occupant", "waiter")
OF_WINDOW = ("root", "begin", "end", "own", "event", "work_id", "below", "weak")
PIECES_MOST = 30_000_000  # with more the path is given up


class Kind(IntEnum):
    """What a piece of the path is."""

    CPU = 0  # a thread runs
    READY = 1  # a thread waits for a CPU
    DEVICE = 2  # a request is with its device
    QUEUE = 3  # a request waits to be issued: for the scheduler, a tag, a throttle
    COMPLETION = 4  # a request has completed, and has not yet woken anybody
    TIMER = 5  # a thread sleeps until a time of its own
    NETWORK = 6  # a packet
    INTERRUPT = 7  # an interrupt without a known cause
    UNLOGGED = 8  # a thread that is not logged
    NO_WAKER = 9  # a sleep whose wake-up is not in the table
    NO_REQUEST = 10  # a request that the table block lacks
    LOOP = 11  # a sleep that the sleeper ended
    DEEP = 12  # a chain longer than DEPTH_MOST
    OVER = 13  # a thread that has ended
    LOST = 14  # a switch was lost
    UNRECORDED = 15  # given up for the recorder's budget
    OTHER_DISK = 16  # a request to a disk that is not recorded, such as the one below a loop device's file
    BELOW = 17  # a loop device's request, while the disk below has it
    HANDED = 18  # a loop device's request, on its way there or back


class TooLongError(Exception):
    """The path has more than PIECES_MOST pieces."""


@dataclass(frozen=True)
class Pieces:
    """Rows of the path, by root and time. Threads are indices of Intervals.numbers."""

    root: I32
    begin: I64
    end: I64
    kind: U8
    thread: I32  # that ran, waited or slept; NONE: a request
    interval: I32  # that thread's, of Intervals; NONE: a request
    # the root's interval that it explains; where the root waited of its own will for a thread of the
    # workload, that one's, and so on
    own: I32
    request: I32
    occupant: I32  # READY: row of Occupancy; NONE: not known
    waiter: I32  # of a request: the interval of who slept until its completion; NONE: no request
    event: I32
    work_id: I32
    below: I32  # the loop device's request that it is a part of; NONE: none
    depth: U8
    weak: Mask

    @property
    def ns(self) -> I64:
        """Length of each piece."""
        return self.end - self.begin


class Collected:
    """Pieces as they are found."""

    def __init__(self, before: int) -> None:
        self.parts: list[Columns] = []
        self.size = before  # pieces, those of other roots included

    def check(self, more: int) -> None:
        """Raise TooLongError if so many more pieces were too many."""
        if self.size + more > PIECES_MOST:
            raise TooLongError(f"more than {PIECES_MOST:,} pieces")

    def add(self, windows: Columns, kind: U8, depth: int, **more: npt.NDArray[Any]) -> None:
        size = windows["begin"].size
        if not size:
            return
        self.check(size)
        self.size += size
        none = np.full(size, NONE, dtype=np.int32)
        part: Columns = {name: more.get(name, none) for name in OF_END}
        part |= {name: windows[name] for name in OF_WINDOW}
        part |= {"kind": kind, "depth": np.full(size, depth, dtype=np.uint8)}
        self.parts.append(part)

    def pieces(self) -> Pieces:
        types: dict[str, Any] = {
            "begin": np.int64,
            "end": np.int64,
            "kind": np.uint8,
            "depth": np.uint8,
            "weak": np.bool_,
        }
        columns: Columns = {}
        for field in fields(Pieces):
            parts = [part[field.name] for part in self.parts] or [np.zeros(0)]
            columns[field.name] = np.concatenate(parts).astype(types.get(field.name, np.int32), copy=False)
        order = np.lexsort((columns["begin"], columns["root"]))
        return Pieces(**{name: values[order] for name, values in columns.items()})
