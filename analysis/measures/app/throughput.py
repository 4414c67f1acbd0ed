# SPDX-License-Identifier: BSD-2-Clause
"""What did the application move, and what did the device?

Application: bytes of the workload's read and write calls on the file system under test, by the time of
return, and of the reads and writes it queued by io_uring and libaio, by the time of completion. Device: bytes
of requests, by the time of completion, split by class. MB is 10**6 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.block.kinds import Kinds
from analysis.measures.common.timeline import F64, Timeline
from analysis.rundir.run import Run, dig
from analysis.tables.block import Block, parts
from analysis.tables.call import Call
from analysis.tables.store import I64

DEFINITION = (
    "application: bytes of the workload's calls on the file system under test, by time of"
    " return, and of its io_uring and libaio requests, by time of completion; device: bytes of reads and"
    " writes, by time of completion. MB = 10^6 bytes."
    " Metadata share: bytes of metadata and journal over bytes of known class."
)
CLASSES = ("data", "metadata", "journal", "unknown")
OPS = ("read", "write")


def application_why_not(run: Run, call: Call | None) -> str:
    """Why it is not known what the application moved; empty if it is.

    A live system has no file system under test but those that are mounted from the device.
    """
    if call is None:
        return run.absent("calls")
    if run.text("workload", "name") != "watch" or call.target.is_("target").any():
        return ""
    numbers = dig(run.facts, "filesystem", "numbers")
    if not isinstance(numbers, list):
        return "which file systems are on the device was not looked for (an older run)"
    return "" if numbers else f"no file system was mounted from {run.text('device', 'name')}"


@dataclass(frozen=True)
class OpClass:
    """Requests and bytes of one op and class."""

    op: str
    class_: str
    requests: int
    bytes: int
    in_workload: int
    errors: int


@dataclass(frozen=True)
class Tally:
    """Requests and bytes by kind and time bin (of completion); by kind, how many were ours, and failed."""

    kinds: Kinds
    timeline: Timeline
    requests: F64  # kinds x bins
    bytes: F64
    in_workload: I64
    failed: I64

    def by_op_and_class(self, ops: Sequence[str], classes: Sequence[str]) -> list[OpClass]:
        """Totals of every op and class that occurs, in the order given."""
        found = []
        for op in ops:
            for class_ in classes:
                for kind in self.kinds.of(op, class_):
                    found.append(
                        OpClass(
                            op,
                            class_,
                            self.kinds.counts[kind],
                            int(self.bytes[kind].sum()),
                            int(self.in_workload[kind]),
                            int(self.failed[kind]),
                        )
                    )
        return found

    def iops(self, op: str) -> F64:
        """Requests per second of one op, per time bin."""
        found: F64 = self.requests[self.kinds.of(op)].sum(axis=0) / self.timeline.lengths_s
        return found

    def device_mb_s(self, op: str) -> dict[str, F64]:
        """MB/s of one op per time bin, by class."""
        series = {class_: np.zeros(self.timeline.bins) for class_ in CLASSES}
        for kind in self.kinds.of(op):
            # a class this program does not know counts as unknown, so that nothing is missing from the sum
            class_ = self.kinds.pairs[kind][1]
            series[class_ if class_ in CLASSES else "unknown"] += self.bytes[kind]
        return {class_: sums / self.timeline.lengths_s / 1e6 for class_, sums in series.items()}


def tally(block: Block, kinds: Kinds, timeline: Timeline) -> Tally:
    """Count all requests once. Sums of bytes are exact below 2**53."""
    many, bins = len(kinds.pairs), timeline.bins
    requests, sums = np.zeros(many * bins), np.zeros(many * bins)
    in_workload, failed = np.zeros(many, dtype=np.int64), np.zeros(many, dtype=np.int64)
    for at in parts(block.rows):
        kind = kinds.codes[at]
        cell = timeline.index(block.complete_ns[at]) + kind * np.int64(bins)
        requests += np.bincount(cell, minlength=many * bins)
        sums += np.bincount(cell, block.bytes[at], many * bins)
        in_workload += np.bincount(kind[block.in_workload[at]], minlength=many)
        failed += np.bincount(kind[block.failed[at]], minlength=many)
    shape = (many, bins)
    return Tally(kinds, timeline, requests.reshape(shape), sums.reshape(shape), in_workload, failed)


def metadata_share(data: float, metadata: float, journal: float) -> float | None:
    """Share of metadata and journal in the bytes of known class; None without any."""
    known = data + metadata + journal
    return (metadata + journal) / known if known > 0 else None


def on_target(call: Call) -> npt.NDArray[np.bool_]:
    """Rows of calls on the file system under test."""
    return call.target.is_("target")


def moves_bytes(call: Call, op: str) -> npt.NDArray[np.bool_]:
    """Rows of the calls that read (or write), told by their names: read, uring_read; write, aio_write..."""
    named = [label for label in call.call.labels if op in label]
    return on_target(call) & call.call.is_in(named)


def middle_ns(call: Call) -> npt.NDArray[np.int64]:
    """The middle of each row's bin: where its sums are put on the time axis."""
    return call.bin_ns + call.bin_length_ns // 2


def application_mb_s(call: Call, op: str, timeline: Timeline) -> F64:
    """MB/s of the workload's reads or writes per time bin."""
    rows = moves_bytes(call, op)
    return timeline.rates(middle_ns(call)[rows], call.bytes[rows]) / 1e6
