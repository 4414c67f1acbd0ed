# SPDX-License-Identifier: BSD-2-Clause
"""Bytes, bios or requests, and latency of each device of a stack.

A volume's latency is Q2C of its bios, a disk's is D2C of its requests. Of a device that was not recorded
there are the kernel's counters alone. Bytes of different layers are the same bytes: they are never summed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.statistics import percentiles
from analysis.rundir.stack import Node, Stack
from analysis.tables.block import Block
from analysis.tables.store import I64


@dataclass(frozen=True)
class Traffic:
    """What went through one device. None: not known."""

    count: int | None  # bios of a volume, requests of a disk
    read_bytes: int | None
    write_bytes: int | None
    p50_ns: int | None  # Q2C of a volume, D2C of a disk
    p99_ns: int | None

    @property
    def bytes(self) -> int:
        """Bytes read and written; 0 if not known."""
        return (self.read_bytes or 0) + (self.write_bytes or 0)


def measure_traffic(stack: Stack, block: Block | None, volume: Block | None) -> dict[str, Traffic]:
    """By the device's name."""
    return {name: _of(node, stack, block, volume) for name, node in stack.nodes.items()}


def _of(node: Node, stack: Stack, block: Block | None, volume: Block | None) -> Traffic:
    table = block if node.is_leaf else volume if node.is_volume else None
    if table is None:
        read, written = (counter_increase(stack, node.name, f"{op}_bytes") for op in ("read", "write"))
        return Traffic(None, read, written, None, None)
    rows = np.flatnonzero(table.dev == node.number)
    timed = rows[table.timed[rows]]
    begin = table.issue_ns if node.is_leaf else table.queue_ns
    p50, p99 = _percentiles(table.complete_ns[timed] - begin[timed])
    sums = _sums_by_label(table.op.codes[rows], table.op.labels, table.bytes[rows])
    return Traffic(
        count=int(rows.size),
        read_bytes=sums.get("read", 0),
        write_bytes=sums.get("write", 0),
        p50_ns=p50,
        p99_ns=p99,
    )


def _sums_by_label(codes: np.ndarray, labels: tuple[str, ...], size: np.ndarray) -> dict[str, int]:
    sums = np.bincount(codes, size, len(labels))  # exact below 2**53
    return {label: int(total) for label, total in zip(labels, sums, strict=True)}


def _percentiles(times: I64) -> tuple[int | None, int | None]:
    if not times.size:
        return None, None
    p50, p99 = percentiles(times, (50.0, 99.0))
    return p50, p99


def counter_increase(stack: Stack, name: str, counter: str) -> int | None:
    """Increase of one of the kernel's counters over the recording, as run.json states it."""
    start, end = stack.at_start.get(name, {}).get(counter), stack.at_end.get(name, {}).get(counter)
    return None if start is None or end is None or end < start else end - start


def unrecorded_share(stack: Stack, traffic: Mapping[str, Traffic], name: str) -> float | None:
    """The device's bytes over those of all disks, itself among them (0..1); None: not known."""
    moved = traffic[name].bytes
    whole = sum(traffic[leaf.name].bytes for leaf in stack.leaves) + moved
    return moved / whole if traffic[name].read_bytes is not None and whole else None
