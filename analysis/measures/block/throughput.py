# SPDX-License-Identifier: BSD-2-Clause
"""Device throughput: requests and bytes by operation, class and time bin, at the time of completion.

MB is 10**6 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.block.kinds import Kinds
from analysis.measures.common.timeline import F64, Timeline
from analysis.tables.block import CLASSES, Block, parts
from analysis.tables.store import I64

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
        rows = []
        for op in ops:
            for class_ in classes:
                for kind in self.kinds.of(op, class_):
                    rows.append(
                        OpClass(
                            op,
                            class_,
                            self.kinds.counts[kind],
                            int(self.bytes[kind].sum()),
                            int(self.in_workload[kind]),
                            int(self.failed[kind]),
                        )
                    )
        return rows

    def iops(self, op: str) -> F64:
        """Requests per second of one op, per time bin."""
        per_s: F64 = self.requests[self.kinds.of(op)].sum(axis=0) / self.timeline.lengths_s
        return per_s

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
    kind_count, bins = len(kinds.pairs), timeline.bins
    requests, sums = np.zeros(kind_count * bins), np.zeros(kind_count * bins)
    in_workload, failed = np.zeros(kind_count, dtype=np.int64), np.zeros(kind_count, dtype=np.int64)
    for at in parts(block.rows):
        kind = kinds.codes[at]
        cell = timeline.index(block.complete_ns[at]) + kind * np.int64(bins)
        requests += np.bincount(cell, minlength=kind_count * bins)
        sums += np.bincount(cell, block.bytes[at], kind_count * bins)
        in_workload += np.bincount(kind[block.in_workload[at]], minlength=kind_count)
        failed += np.bincount(kind[block.failed[at]], minlength=kind_count)
    shape = (kind_count, bins)
    return Tally(kinds, timeline, requests.reshape(shape), sums.reshape(shape), in_workload, failed)


def metadata_share(data: float, metadata: float, journal: float) -> float | None:
    """Share of metadata and journal in the bytes of known class; None without any."""
    known_bytes = data + metadata + journal
    return (metadata + journal) / known_bytes if known_bytes > 0 else None


@dataclass(frozen=True)
class Throughput:
    """Device throughput of a run: totals by operation and class, and series over the timeline's bins."""

    totals: list[OpClass]
    mb_s: dict[str, dict[str, F64]]  # by OPS, then by CLASSES
    iops: dict[str, F64]  # by operation, of the operations that occur


def measure_throughput(block: Block, kinds: Kinds, timeline: Timeline) -> Throughput:
    """Count all requests once, by kind and bin."""
    ops, classes = block.op.present(), block.class_.present()
    counts = tally(block, kinds, timeline)
    return Throughput(
        totals=counts.by_op_and_class(ops, classes),
        mb_s={op: counts.device_mb_s(op) for op in OPS},
        iops={op: counts.iops(op) for op in ops},
    )
