# SPDX-License-Identifier: BSD-2-Clause
"""What did the application move, and what did the device?

Application: bytes of the workload's read and write calls on the file system under test, by the time of
return. Device: bytes of requests, by the time of completion, split by class. MB is 10**6 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.timeline import F64, Timeline
from analysis.tables.block import Block
from analysis.tables.call import Call

DEFINITION = (
    "application: bytes of the workload's calls on the file system under test, by time of"
    " return; device: bytes of reads and writes, by time of completion. MB = 10^6 bytes."
    " Metadata share: bytes of metadata and journal over bytes of known class."
)
CLASSES = ("data", "metadata", "journal", "unknown")
OPS = ("read", "write")


@dataclass(frozen=True)
class OpClass:
    """Requests and bytes of one op and class."""

    op: str
    class_: str
    requests: int
    bytes: int
    in_workload: int
    errors: int


def by_op_and_class(block: Block) -> list[OpClass]:
    """Totals of every op and class that occurs, largest op first."""
    found = []
    for op in block.op.present():
        is_op = block.op.is_(op)
        for class_ in block.class_.present():
            rows = is_op & block.class_.is_(class_)
            requests = int(rows.sum())
            if requests:
                found.append(
                    OpClass(
                        op,
                        class_,
                        requests,
                        int(block.bytes[rows].sum()),
                        int((rows & block.in_workload).sum()),
                        int((rows & block.failed).sum()),
                    )
                )
    return found


def metadata_share(data: float, metadata: float, journal: float) -> float | None:
    """Share of metadata and journal in the bytes of known class; None without any."""
    known = data + metadata + journal
    return (metadata + journal) / known if known > 0 else None


def device_mb_s(block: Block, op: str, timeline: Timeline) -> dict[str, F64]:
    """MB/s of one op per time bin, by class."""
    is_op = block.op.is_(op) & (block.bytes > 0)
    series = {}
    for class_ in CLASSES:
        # a class this program does not know counts as unknown, so that nothing is missing from the sum
        of = block.class_.is_(class_)
        if class_ == "unknown":
            of = ~block.class_.is_in(CLASSES[:-1])
        rows = is_op & of
        series[class_] = timeline.rates(block.complete_ns[rows], block.bytes[rows]) / 1e6
    return series


def on_target(call: Call) -> npt.NDArray[np.bool_]:
    """Rows of calls on the file system under test."""
    return call.target.is_("target")


def moves_bytes(call: Call, op: str) -> npt.NDArray[np.bool_]:
    """Rows of the calls that read (or write), told by their names: read, pread64; write, pwritev2..."""
    named = [label for label in call.call.labels if op in label]
    return on_target(call) & call.call.is_in(named)


def middle_ns(call: Call) -> npt.NDArray[np.int64]:
    """The middle of each row's bin: where its sums are put on the time axis."""
    return call.bin_ns + call.bin_length_ns // 2


def application_mb_s(call: Call, op: str, timeline: Timeline) -> F64:
    """MB/s of the workload's reads or writes per time bin."""
    rows = moves_bytes(call, op)
    return timeline.rates(middle_ns(call)[rows], call.bytes[rows]) / 1e6
