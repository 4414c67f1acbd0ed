# SPDX-License-Identifier: BSD-2-Clause
"""Sequential streams, also interleaved ones: requests that continue an earlier request.

A rule that compares only with the previous request (biopattern's) takes interleaved files as random. Here a
request continues a stream if one of the previous WINDOW requests of its device and direction, in issue order,
ended exactly at its start, and no other request has started there since.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.block.seeks import Distances, length_sectors
from analysis.tables.block import Block
from analysis.tables.store import I64, Ints

WINDOW = 256
DEFINITION = (
    f"stream: a request continues a stream if one of the {WINDOW} requests before it, of its device and"
    " direction and in issue order, ended exactly where it begins, and no request has begun there since."
    " length: mean requests of a stream (of two or more); parallel: open streams, mean over the requests."
)
# (sector, position, kind) in one number of 46 + 16 + 1 bits; so many requests at a time fit a CPU's cache
POSITION_BITS = 16
SECTOR_LIMIT = 1 << 42  # 2 PiB
STEP = (1 << POSITION_BITS) - WINDOW


@dataclass(frozen=True)
class StreamRow:
    """The streams of one device and direction."""

    dev: int
    op: str
    requests: int
    adjacent: int  # requests that start where the previous one of this direction ended
    in_stream: int  # requests that continue any stream, adjacent ones included
    streams: int  # streams of two requests or more
    mean_requests: float | None  # per stream
    mean_bytes: float | None  # per stream
    parallel: float  # open streams, mean over the requests


@dataclass(frozen=True)
class Streams:
    """rows: per device and direction; continues: which distances are of requests that continue a stream."""

    rows: list[StreamRow]
    continues: npt.NDArray[np.bool_]


def predecessors(n: int, sectors: Callable[[slice], tuple[I64, I64]]) -> Ints:
    """For n requests of one device and direction in issue order: the request each continues, -1 for none.

    sectors: returns the start and end sectors of some of the requests.
    """
    previous: Ints = np.full(n, -1, dtype=np.int32 if n < 1 << 31 else np.int64)
    for first in range(0, n, STEP):
        low = max(first - WINDOW, 0)
        high = min(first + STEP, n)
        begins, ends = sectors(slice(low, high))
        position = np.arange(high - low, dtype=np.int64) << 1
        keys = np.concatenate(
            (
                # an address beyond the limit is no disk's: it belongs to no stream
                ((begins << (POSITION_BITS + 1)) | position)[(begins >= 0) & (begins < SECTOR_LIMIT)],
                ((ends << (POSITION_BITS + 1)) | position | 1)[(ends >= 0) & (ends < SECTOR_LIMIT)],
            )
        )
        keys.sort()
        # a request continues the last event at its start sector, if that is another request's end
        after, before = keys[1:], keys[:-1]
        mask = (1 << POSITION_BITS) - 1
        after_position = (after >> 1) & mask
        requests_back = after_position - ((before >> 1) & mask)
        same_sector = (after >> (POSITION_BITS + 1)) == (before >> (POSITION_BITS + 1))
        continuing = np.flatnonzero(
            same_sector & ((after & 1) == 0) & ((before & 1) == 1) & (requests_back <= WINDOW)
        )
        continuing = continuing[after_position[continuing] + low >= first]
        previous[after_position[continuing] + low] = (
            after_position[continuing] + low - requests_back[continuing]
        )
    return previous


def measure_streams(block: Block, distances: Distances) -> Streams:
    """Streams of every device and direction, in the order of device numbers, reads first."""
    continues = np.zeros(distances.rows.size, dtype=np.bool_)
    rows = []
    is_one_device = not block.rows or bool((block.dev == block.dev[0]).all())
    dev = block.dev[:1] if is_one_device else block.dev[distances.rows]
    numbers = np.unique(dev[np.flatnonzero(np.diff(dev, prepend=-1))]) if dev.size else dev
    for number in numbers:
        for op in ("read", "write"):
            is_member = block.op.is_(op)[distances.rows]
            if not is_one_device:
                is_member &= dev == number
            at = np.flatnonzero(is_member).astype(distances.rows.dtype)
            del is_member
            if not at.size:
                continue

            def sectors(part: slice, at: Ints = at) -> tuple[I64, I64]:
                rows = distances.rows[at[part]]
                start = block.sector[rows]
                return start, start + length_sectors(block, rows)

            previous = predecessors(at.size, sectors)
            is_continuing = previous >= 0
            continues[at] = is_continuing
            continuing = np.flatnonzero(is_continuing)
            member = is_continuing.copy()
            member[previous[continuing]] = True
            streams = int(member.sum()) - continuing.size  # each has one request that continues nothing
            rows.append(
                StreamRow(
                    dev=int(number),
                    op=op,
                    requests=int(at.size),
                    adjacent=int((previous[continuing] == continuing - 1).sum()),
                    in_stream=int(continuing.size),
                    streams=streams,
                    mean_requests=int(member.sum()) / streams if streams else None,
                    mean_bytes=float(block.bytes[distances.rows[at[member]]].sum()) / streams
                    if streams
                    else None,
                    parallel=float((continuing - previous[continuing]).sum()) / at.size,
                )
            )
    return Streams(rows, continues)
