# SPDX-License-Identifier: BSD-2-Clause
"""perf.data, the file of perf record, as records in order of time (perf.data-file-format.txt, perf_event.h).

perf script is not used for it: as root it opens, by the names in the file, programs of other users and
/tmp/perf-PID.map, and enters their mount namespaces. This module opens only perf.data.
"""

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, NamedTuple

MMAP, LOST, COMM, EXIT, THROTTLE, FORK, SAMPLE, MMAP2, LOST_SAMPLES, KSYMBOL = 1, 2, 3, 4, 5, 7, 9, 10, 13, 17
_USER_TYPES, _FINISHED_ROUND, _COMPRESSED = 64, 68, (81, 83)
_IP, _TID, _TIME, _ADDR, _READ, _CALLCHAIN, _ID, _CPU, _PERIOD, _STREAM, _IDENTIFIER = (
    1 << bit for bit in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16)
)
_NEEDED = _IP | _TID | _TIME | _CPU | _CALLCHAIN
_TRAILER = (_TID, _TIME, _ID, _STREAM, _CPU, _IDENTIFIER)  # the last fields of a record that is no sample
_BEFORE_CHAIN = (_IDENTIFIER, _IP, _TID, _TIME, _ADDR, _ID, _STREAM, _CPU, _PERIOD)
_HEAD = struct.Struct("<IHH")
_ATTR = struct.Struct("<IIQQQQQ")  # type, size, config, period, sample_type, read_format, flags
_SAMPLE_ID_ALL = 1 << 18
_CPU_CLOCK = (1, 0)  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK
_NO_TIME = 2**64 - 1


class Damaged(Exception):
    """The file is damaged, or is not in the format that our perf record command writes."""


class Record(NamedTuple):
    """One record, of the kernel or of perf record: its content without the header."""

    time_ns: int
    kind: int
    misc: int
    content: bytes


class Sample(NamedTuple):
    """One sample of the timer."""

    pid: int
    tid: int
    cpu: int
    chain: bytes  # u64 each, innermost first, with marks between kernel and user part


@dataclass
class _Attr:
    is_clock: bool
    sample_type: int


class PerfData:
    """An open perf.data. Raises Damaged, also while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        if sys.byteorder != "little":
            raise Damaged("this machine is big-endian")
        self._file = file
        head = self._exactly(104)
        if head[:8] != b"PERFILE2":
            raise Damaged("it has no PERFILE2 header")
        _, attr_bytes, attrs_at, attrs_bytes, self._at, size, *_ = struct.unpack_from("<8Q", head, 8)
        file.seek(0, 2)
        # perf record that was killed leaves a size of 0: the data go to the end of the file.
        self._end = min(self._at + size, file.tell()) if size else file.tell()
        if attr_bytes < _ATTR.size + 16 or attrs_bytes > 1 << 20:
            raise Damaged("its attributes have no size")
        file.seek(attrs_at)
        attrs = self._exactly(attrs_bytes)
        self._by_id: dict[int, _Attr] = {}
        self._attrs: list[_Attr] = []
        for at in range(0, attrs_bytes - attr_bytes + 1, attr_bytes):
            self._attr(attrs[at : at + attr_bytes])
        clocks = [attr for attr in self._attrs if attr.is_clock]
        if len(clocks) != 1 or clocks[0].sample_type & (_NEEDED | _READ) != _NEEDED:
            raise Damaged("it has no samples of cpu-clock with time, CPU and call path")
        self._clock = clocks[0]
        trailers = {tuple(bit for bit in _TRAILER if attr.sample_type & bit) for attr in self._attrs}
        if len(trailers) != 1:
            raise Damaged("its events have different fields")
        (trailer,) = trailers
        self._trailer_bytes = 8 * len(trailer)
        self._time_from_end = 8 * (len(trailer) - trailer.index(_TIME))
        fields = [bit for bit in _BEFORE_CHAIN if self._clock.sample_type & bit]
        number = _IDENTIFIER if _IDENTIFIER in trailer else _ID
        self._has_id = number in trailer
        if self._has_id:
            self._sample_id_at = 8 * fields.index(number)
            self._id_from_end = 8 * (len(trailer) - trailer.index(number))
        elif len(self._attrs) > 1:
            raise Damaged("its event types cannot be distinguished")
        self._sample_time_at = 8 * fields.index(_TIME)
        self._sample_tid_at = 8 * fields.index(_TID)
        self._sample_cpu_at = 8 * fields.index(_CPU)
        self._chain_at = 8 * len(fields)

    def _attr(self, entry: bytes) -> None:
        kind, _, config, _, sample_type, _, flags = _ATTR.unpack_from(entry)
        if not flags & _SAMPLE_ID_ALL:
            raise Damaged("its records have no time")
        attr = _Attr((kind, config) == _CPU_CLOCK, sample_type)
        self._attrs.append(attr)
        ids_at, ids_bytes = struct.unpack("<QQ", entry[-16:])
        if ids_bytes > 1 << 20:
            raise Damaged("an event has no size")
        self._file.seek(ids_at)
        for (number,) in struct.iter_unpack("<Q", self._exactly(ids_bytes // 8 * 8)):
            self._by_id[number] = attr

    def records(self) -> Iterator[Record]:
        """Yield all records in order of time, as perf sorts them.

        perf record writes one CPU's records after another's, and marks the end of each round. No later round
        has a record that is older than the newest one of the round before.
        """
        waiting: list[tuple[int, int, Record]] = []
        newest = settled = number = 0
        for record in self._as_written():
            if record.kind == _FINISHED_ROUND:
                waiting.sort()
                kept = 0
                while kept < len(waiting) and waiting[kept][0] <= settled:
                    yield waiting[kept][2]
                    kept += 1
                del waiting[:kept]
                settled = newest
            elif record.time_ns in (0, _NO_TIME):  # written by perf: the state before it began
                yield record
            else:
                number += 1
                newest = max(newest, record.time_ns)
                waiting.append((record.time_ns, number, record))
        waiting.sort()
        yield from (record for _, _, record in waiting)

    def _as_written(self) -> Iterator[Record]:
        self._file.seek(self._at)
        left = self._end - self._at
        while left >= _HEAD.size:
            kind, misc, size = _HEAD.unpack(self._exactly(_HEAD.size))
            left -= size
            if size < _HEAD.size or kind in _COMPRESSED:
                raise Damaged("a record has no size, or is compressed")
            if left < 0:
                return  # the last record, which a killed perf record did not complete
            content = self._exactly(size - _HEAD.size)
            if kind >= _USER_TYPES:
                if kind == _FINISHED_ROUND:
                    yield Record(0, kind, misc, b"")
            elif kind == SAMPLE:
                if self._is_of_clock(content):
                    yield Record(self._u64(content, self._sample_time_at), kind, misc, content)
            else:
                yield Record(
                    self._u64(content, len(content) - self._time_from_end),
                    kind,
                    misc,
                    content,
                )

    def _is_of_clock(self, content: bytes) -> bool:
        return not self._has_id or self._by_id.get(self._u64(content, self._sample_id_at)) is self._clock

    def sample(self, record: Record) -> Sample:
        """Return the fields of a sample. Raises Damaged."""
        content = record.content
        length = self._u64(content, self._chain_at)
        chain = content[self._chain_at + 8 : self._chain_at + 8 + 8 * length]
        if len(chain) != 8 * length:
            raise Damaged("a call path is cut")
        pid, tid = struct.unpack_from("<ii", content, self._sample_tid_at)
        return Sample(pid, tid, self._u64(content, self._sample_cpu_at) & 0xFFFFFFFF, chain)

    def lost_samples(self, record: Record) -> tuple[int, bool]:
        """Return how many samples of an event were lost, and whether the event is the timer."""
        content, is_clock = record.content, True
        if self._has_id:
            is_clock = self._by_id.get(self._u64(content, len(content) - self._id_from_end)) is self._clock
        return self._u64(content, 0), is_clock

    def text(self, record: Record, at: int) -> str:
        """Return the name at an offset of a record, before the trailing fields."""
        name = record.content[at : len(record.content) - self._trailer_bytes]
        return name.split(b"\0", 1)[0].decode(errors="replace")

    @staticmethod
    def _u64(content: bytes, at: int) -> int:
        if at < 0 or at + 8 > len(content):
            raise Damaged("a record is too short")
        return int.from_bytes(content[at : at + 8], "little")

    def _exactly(self, size: int) -> bytes:
        content = self._file.read(size)
        if len(content) != size:
            raise Damaged("it is cut")
        return content
