# SPDX-License-Identifier: BSD-2-Clause
"""What became of the bytes that the application wrote: overwritten in memory, deleted, or sent to the disk.

Three sums must agree, and their difference is stated:

    written by calls  = dirtied + overwritten while dirty + direct I/O - rest of pages
    dirtied           = data sent to the disk, not direct + deleted while dirty + still dirty at the end
    sent to the disk  = data + metadata + journal + other

Dirtied is what became dirty in regular files, whole folios at a time. A folio of more than one page is dirty
as a whole for a single byte: where there are such, dirtied is only an upper bound, and what was overwritten
and what was deleted can't be told apart.

Bytes overwritten while dirty and the rest of pages are told apart by a bound: only writes over bytes that a
file had can overwrite, and the first sum gives their difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.app.throughput import moves_bytes
from analysis.measures.common.intervals import Bins, Intervals
from analysis.measures.origin.phase_places import PhasePlaces
from analysis.tables.block import CLASSES, Block, parts
from analysis.tables.call import NOT_SEEN, Call
from analysis.tables.dirtied import Dirtied
from analysis.tables.phase import Phases
from analysis.tables.store import I64

DIRECT_ENDS = ("iomap_dio_", "dio_", "btrfs_dio_", "__blkdev_direct_IO")  # functions that end direct I/O
DATA, METADATA, JOURNAL = (CLASSES.index(class_) for class_ in ("data", "metadata", "journal"))
ZEROING = "write_zeroes"
# Share of dirtied that may be wrong: all of the large folios, or what was not sent. Of a large folio that is
# dirty for a single byte only a part is sent.
MOST_WRONG = 0.01
COLUMNS = (*CLASSES, "direct", "zeroed")
DIRECT, ZEROED = COLUMNS.index("direct"), COLUMNS.index("zeroed")


@dataclass(frozen=True)
class WrittenRow:
    """Bytes of the run, or of the phases of one name. None: not recorded."""

    name: str
    app: float | None  # returned by calls that write
    dirtied: float | None
    large: float | None  # of dirtied: of folios of more than one page
    data: int
    metadata: int
    journal: int
    zeroed: int  # ranges set to zero without data (write_zeroes)
    other: int  # of unknown class
    direct: int  # of data: direct I/O, which dirties nothing

    @property
    def device(self) -> int:
        """All bytes written to the disk."""
        return self.data + self.metadata + self.journal + self.zeroed + self.other

    @property
    def amplification(self) -> float | None:
        """Bytes on the disk for each that the application wrote; None: it wrote none, or not known."""
        return self.device / self.app if self.app else None


@dataclass(frozen=True)
class Written:
    """The whole run, and each phase. deleted: bytes that were dirty when their file was cut or deleted."""

    whole: WrittenRow
    phases: list[WrittenRow]
    deleted: int | None  # None: not recorded
    over: float | None = None  # written by calls where files had bytes before; None: not recorded

    @property
    def is_exact(self) -> bool:
        """Whether dirtied holds: hardly any larger folio became dirty, or nearly all of it was sent."""
        whole = self.whole
        if whole.dirtied is None:
            return False
        unsent = whole.dirtied - (whole.data - whole.direct)
        return min(whole.large or 0, abs(unsent)) <= MOST_WRONG * whole.dirtied

    @property
    def overwritten(self) -> float | None:
        """Bytes overwritten while dirty, less the rest of pages; negative: more rest. None: can't be told."""
        whole = self.whole
        if whole.app is None or whole.dirtied is None or not self.is_exact:
            return None
        return whole.app - whole.direct - whole.dirtied

    @property
    def most_overwritten(self) -> float | None:
        """The most bytes that were overwritten while dirty; None: can't be told."""
        if self.overwritten is None or self.whole.app is None or self.over is None:
            return None
        return max(0.0, self.overwritten, min(self.over, self.whole.app - self.whole.direct))

    @property
    def left(self) -> float | None:
        """Dirtied bytes neither sent to the disk nor deleted: still dirty, or in flight, at the end."""
        whole = self.whole
        if whole.dirtied is None or not self.is_exact:
            return None
        return whole.dirtied - (self.deleted or 0) - (whole.data - whole.direct)

    @property
    def not_sent(self) -> float | None:
        """Where dirtied is only a bound: bytes of calls that did not reach the disk, for any reason."""
        return None if self.whole.app is None else self.whole.app - self.whole.data


def measure_written(
    block: Block,
    call: Call | None,
    dirtied: Dirtied | None,
    marked: Phases | None,
    functions: Mapping[int, str],
    window_ns: tuple[int, int],
    deleted: int | None,
) -> Written:
    """block: what the file system asked for. call: None if the application's bytes are not known."""
    places = PhasePlaces(marked, window_ns) if marked is not None and marked.name else None
    sums = _device_sums(block, places, functions)
    app = large = dirty = over = None
    if call is not None:
        writes = moves_bytes(call, "write")
        app = Bins(call.bin_ns[writes], call.bin_length_ns[writes], call.bytes[writes])
        over = _overwriting(call, writes)
    if dirtied is not None:
        dirty, large = (
            Bins(dirtied.bin_ns, dirtied.bin_length_ns, values)
            for values in (dirtied.bytes, dirtied.large_folio_bytes)
        )

    def row(name: str, device: I64, spans: Intervals | None) -> WrittenRow:
        of_class = device[: len(CLASSES)]
        data, metadata, journal = (int(of_class[i]) for i in (DATA, METADATA, JOURNAL))
        return WrittenRow(
            name=name,
            app=_over(app, spans),
            dirtied=_over(dirty, spans),
            large=_over(large, spans),
            data=data,
            metadata=metadata,
            journal=journal,
            zeroed=int(device[ZEROED]),
            other=int(of_class.sum()) - data - metadata - journal,
            direct=int(device[DIRECT]),
        )

    rows = []
    if places is not None:
        for name, spans in places.spans.items():
            rows.append(row(name, sums[places.inside[name]].sum(axis=0), spans))
    return Written(row("", sums.sum(axis=0), None), rows, deleted, over)


def _overwriting(call: Call, writes: npt.NDArray[np.bool_]) -> float | None:
    """Bytes written where files had some before: at most so many, as io_uring and libaio do not tell."""
    over, every = call.over_bytes[writes], call.bytes[writes]
    if (over == NOT_SEEN).any():
        return None
    tells = call.call.is_("write")[writes]
    return float(np.where(tells, over, every).sum())


def _over(bins: Bins | None, spans: Intervals | None) -> float | None:
    """The sum over the intervals, or over all time."""
    if bins is None:
        return None
    return bins.total if spans is None else bins.over(spans)


def _device_sums(block: Block, places: PhasePlaces | None, functions: Mapping[int, str]) -> I64:
    """Bytes written, by place of the phases (rows) and COLUMNS; direct I/O counts as data, too."""
    sums = np.zeros((places.count if places is not None else 1, len(COLUMNS)))  # exact below 2**53
    zeroing = block.op.is_(ZEROING)
    writes = block.op.is_("write") | zeroing
    unknown = CLASSES.index("unknown")
    class_of = np.array([CLASSES.index(c) if c in CLASSES else unknown for c in (*block.class_.labels, "")])
    is_direct = _is_direct(block, functions)
    for at in parts(block.rows):
        rows = np.flatnonzero(writes[at])
        size = block.bytes[at][rows]
        place = places.of(block.complete_ns[at][rows]) if places is not None else np.zeros(rows.size, np.intp)
        column = np.where(zeroing[at][rows], ZEROED, class_of[block.class_.codes[at][rows]])
        sums += np.bincount(place * len(COLUMNS) + column, size, sums.size).reshape(sums.shape)
        if is_direct is not None:
            direct = is_direct[at][rows] & (column == DATA)
            sums[:, DIRECT] += np.bincount(place[direct], size[direct], len(sums))
    return sums.astype(np.int64)


def _is_direct(block: Block, functions: Mapping[int, str]) -> npt.NDArray[np.bool_] | None:
    """Mask of direct I/O, by the function that ends it; None: there is none, or functions are not known."""
    numbers = [number for number, name in functions.items() if name.startswith(DIRECT_ENDS)]
    ends = block.read("end_io_id") if numbers else None
    return None if ends is None else np.isin(ends, numbers)
