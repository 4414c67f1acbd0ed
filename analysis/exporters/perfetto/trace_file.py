# SPDX-License-Identifier: BSD-2-Clause
"""Write the packets of a Perfetto trace: tracks, names, slices, counters, in lots of rows.

Numbers of fields are those of Perfetto's protos/perfetto/trace/*.proto. All packets are of one sequence,
whose names are interned. Every time is CLOCK_MONOTONIC, as in the tables: the clock snapshot says that
CLOCK_BOOTTIME, Perfetto's own clock, shows the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from analysis.exporters.perfetto.wire import Part, field, join, message, number, padded, tag
from analysis.tables.store import I64

PACKET = 1  # of Trace
CLOCK_SNAPSHOT, PROCESS_TREE, TIMESTAMP, SEQUENCE, TRACK_EVENT, INTERNED_DATA, SEQUENCE_FLAGS = (
    6,
    2,
    8,
    10,
    11,
    12,
    13,
)
SYSTEM_INFO, TRACK_DESCRIPTOR, FTRACE_EVENTS, PERF_SAMPLE = 45, 60, 1, 66
CLEARED, NEEDS_NAMES = 1, 2  # sequence flags
REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6  # clocks
SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4  # types of a track event
TYPE, NAME_IID, TRACK_UUID, COUNTER_VALUE, ANNOTATION = 9, 10, 11, 30, 4
EVENT_NAMES, ANNOTATION_NAMES, KERNEL_SYMBOLS, ANNOTATION_TEXTS = 2, 3, 26, 29  # of InternedData
FUNCTION_NAMES, FRAMES, CALLSTACKS, MAPPINGS, MAPPING_PATHS = 5, 6, 7, 19, 17
LOT = 1 << 17  # rows that are encoded at once: about 20 MB
SEQUENCE_ID = 1

_OF_SEQUENCE = field(SEQUENCE, SEQUENCE_ID)


@dataclass(frozen=True)
class Annotation:
    """A number for each row, or a text by its code. is_absent: rows that have none."""

    name: str
    values: npt.NDArray[np.integer[Any]]
    texts: Sequence[str] | None = None
    is_absent: npt.NDArray[np.bool_] | None = None


class TraceFile:
    """A trace that is being written."""

    def __init__(self, file: IO[bytes], start_ns: int, realtime_offset_ns: int | None) -> None:
        self.file = file
        self.names: dict[int, dict[str, int]] = {}  # by kind of name
        self.pending: list[bytes] = []
        self.tracks = 0
        clocks = {BOOTTIME: start_ns, MONOTONIC: start_ns}
        if realtime_offset_ns is not None and start_ns + realtime_offset_ns > 0:
            clocks[REALTIME] = start_ns + realtime_offset_ns
        snapshot = b"".join(field(1, field(1, clock) + field(2, ns)) for clock, ns in clocks.items())
        self.packet(field(CLOCK_SNAPSHOT, snapshot + field(2, BOOTTIME)))
        self.packet(_OF_SEQUENCE + field(SEQUENCE_FLAGS, CLEARED) + field(INTERNED_DATA, b""))

    def packet(self, content: bytes) -> None:
        """Write one packet."""
        self.file.write(field(PACKET, content))

    def packets(self, rows: int, parts: Sequence[Part]) -> None:
        """Write a packet for each row."""
        if rows:
            self.file.write(join(rows, message(PACKET, parts)))

    def intern(self, kind: int, text: str, more: bytes = b"") -> int:
        """The number of a name. more: further fields of its entry."""
        names = self.names.setdefault(kind, {})
        found = names.get(text)
        if found is None:
            found = names[text] = len(names) + 1
            entry = field(1, found) + (more or field(2, text))
            self.pending.append(field(kind, entry))
        return found

    def intern_all(self, kind: int, texts: Sequence[str]) -> I64:
        """The numbers of names, by their place."""
        return np.array([self.intern(kind, text) for text in texts] or [0], dtype=np.int64)

    def flush_names(self) -> None:
        """Write the names that are new, before the packets that use them."""
        lot = 4096
        for at in range(0, len(self.pending), lot):
            content = b"".join(self.pending[at : at + lot])
            self.packet(_OF_SEQUENCE + field(SEQUENCE_FLAGS, NEEDS_NAMES) + field(INTERNED_DATA, content))
        self.pending.clear()

    def track(self, name: str, parent: int = 0, rank: int = 0, unit: str | None = None) -> int:
        """Describe a track; returns its number. Tracks of one name and parent are shown as one.

        rank: its place among its parent's. unit: of a counter; None: it has slices.
        """
        self.tracks += 1
        content = field(1, self.tracks) + field(2, name)
        if parent:
            content += field(5, parent)
        if unit is not None:
            content += field(8, field(6, unit))
        content += field(11, 3 if not unit else 0) + field(
            12, rank
        )  # its children in the order of their ranks
        self.packet(_OF_SEQUENCE + field(TRACK_DESCRIPTOR, content))
        return self.tracks

    def slices(
        self,
        track: npt.NDArray[np.integer[Any]],
        name: npt.NDArray[np.integer[Any]],
        begin: I64,
        end: I64,
        annotations: Sequence[Annotation] = (),
    ) -> None:
        """Write a slice for each row. name: numbers of EVENT_NAMES."""
        for parts in self._events(SLICE_BEGIN, track, name, begin, annotations, end):
            self.packets_of_two(*parts)

    def instants(
        self,
        track: npt.NDArray[np.integer[Any]],
        name: npt.NDArray[np.integer[Any]],
        at: I64,
        annotations: Sequence[Annotation] = (),
    ) -> None:
        """Write a moment for each row."""
        for rows, first, _ in self._events(INSTANT, track, name, at, annotations, at):
            self.packets(rows, first)

    def _events(
        self,
        kind: int,
        track: npt.NDArray[np.integer[Any]],
        name: npt.NDArray[np.integer[Any]],
        begin: I64,
        annotations: Sequence[Annotation],
        end: I64,
    ) -> Any:
        encoded = [(one, *self._interned(one)) for one in annotations]
        self.flush_names()
        for lot, absent in _alike(annotations, begin.size):
            on = number(TRACK_UUID, track[lot])
            event = [field(TYPE, kind), *on, *number(NAME_IID, name[lot])]
            for one, iid, codes in encoded:
                if one.name not in absent:
                    event += _annotation(one, iid, codes, lot)
            first = [*number(TIMESTAMP, begin[lot]), _OF_SEQUENCE, *message(TRACK_EVENT, event)]
            last = [
                *number(TIMESTAMP, end[lot]),
                _OF_SEQUENCE,
                *message(TRACK_EVENT, [field(TYPE, SLICE_END), *on]),
            ]
            yield lot.size, first, last

    def packets_of_two(self, rows: int, first: Sequence[Part], second: Sequence[Part]) -> None:
        """Write two packets for each row, one behind the other."""
        self.file.write(join(rows, [*message(PACKET, first), *message(PACKET, second)]))

    def _interned(self, one: Annotation) -> tuple[int, I64 | None]:
        texts = None if one.texts is None else self.intern_all(ANNOTATION_TEXTS, one.texts)
        return self.intern(ANNOTATION_NAMES, one.name), texts

    def counter(self, track: int, at: I64, values: I64) -> None:
        """Write the samples of one counter."""
        self.counters(np.full(at.size, track, dtype=np.int64), at, values)

    def counters(self, track: I64, at: I64, values: I64) -> None:
        """Write samples, each of the counter of its track."""
        for first in range(0, at.size, LOT):
            lot = slice(first, first + LOT)
            event = [
                field(TYPE, COUNTER),
                *number(TRACK_UUID, track[lot]),
                *number(COUNTER_VALUE, values[lot]),
            ]
            parts = [*number(TIMESTAMP, at[lot]), _OF_SEQUENCE, *message(TRACK_EVENT, event)]
            self.packets(at[lot].size, parts)

    def system(self, release: str, version: str, machine: str) -> None:
        """Say which kernel it was: readers decode states of threads by it."""
        utsname = field(1, "Linux") + field(2, version) + field(3, release) + field(4, machine)
        self.packet(field(SYSTEM_INFO, field(1, utsname)))


def _alike(annotations: Sequence[Annotation], rows: int) -> Iterator[tuple[I64, set[str]]]:
    """Lots of rows that lack the same annotations, and the names of these."""
    optional = [one for one in annotations if one.is_absent is not None]
    for first in range(0, rows, LOT):
        lot = np.arange(first, min(first + LOT, rows))
        lacks = np.zeros(lot.size, dtype=np.int64)
        for bit, one in enumerate(optional):
            assert one.is_absent is not None
            lacks |= one.is_absent[lot].astype(np.int64) << bit
        for pattern in np.unique(lacks).tolist():
            absent = {one.name for bit, one in enumerate(optional) if pattern >> bit & 1}
            yield lot[lacks == pattern], absent


def _annotation(one: Annotation, iid: int, codes: I64 | None, lot: I64) -> list[Part]:
    values = one.values[lot]
    if codes is None:
        content = [field(1, iid), *number(4, values)]
    else:
        content = [field(1, iid), tag(17, 0), padded(codes[values])]
    return message(ANNOTATION, content)
