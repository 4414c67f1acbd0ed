# SPDX-License-Identifier: BSD-2-Clause
"""Each device's own counters (/sys/block/NAME/stat) against the bytes that were recorded of it.

A disk counts a request's bytes at its end. A volume counts a bio's bytes at its end, older kernels as the bio
starts (bdev_start_io_acct lost its sectors in Linux 6.3): either sum is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.app import memory
from analysis.measures.block.throughput import OPS
from analysis.measures.common.window import Window
from analysis.rundir.devices import counted, with_requests
from analysis.rundir.run import Run
from analysis.rundir.stack import Stack
from analysis.tables.block import Block, parts
from analysis.tables.counter import Counter

DISK_COUNTERS = tuple(f"{op}_bytes" for op in OPS)


@dataclass(frozen=True)
class OwnCounter:
    """One device's counters, and the recorded sums to compare with.

    traced: bytes by operation, of what ended between the first and the last sample; None: the device was not
    recorded, or which device the counters are of is not known. begun: the same of what began then.
    """

    name: str
    increase: dict[str, int | None]  # by DISK_COUNTERS; None: fewer than two samples
    traced: dict[str, int] | None
    begun: dict[str, int] | None = None  # only of volumes

    def difference(self, op: str) -> int | None:
        """Recorded less counted bytes of an operation; None: one of them is not known."""
        count = self.increase.get(f"{op}_bytes")
        if count is None or self.traced is None:
            return None
        differences = [sums[op] - count for sums in (self.traced, self.begun) if sums is not None]
        return min(differences, key=abs)


def measure_own_counters(
    run: Run,
    stack: Stack,
    block: Block | None,
    volume: Block | None,
    counter: Counter | None,
    window: Window,
) -> list[OwnCounter]:
    """One entry a device whose counters are known, disks first, in the order of run.json.

    Recordings without devices in the counter table have the first disk's counters alone.
    """
    if counter is None or not counter.dev.any():
        return [_first_disk(run, block, counter, window)]
    found = []
    nodes = [(node.number, node.name, block) for node in stack.leaves]
    nodes += [(node.number, node.name, volume) for node in stack.volumes]
    if len(nodes) == 1 and nodes[0][0] < 0:  # the run's only disk, of which run.json has no number
        nodes = [(int(number), nodes[0][1], block) for number in np.unique(counter.dev) if number]
    uncounted = {node.name for node in stack.nodes.values() if node.facts.get("uncounted") is True}
    for number, name, table in nodes:
        if name in uncounted:  # this kernel does not count a volume's bios: NVMe heads of 6.1
            continue
        times = counter.series("disk.write_bytes", number)[0]
        if not times.size:
            continue
        since_ns, until_ns = int(times[0]), int(times[-1])
        increase = {key: memory.increase(counter, f"disk.{key}", number) for key in DISK_COUNTERS}
        if table is None:
            found.append(OwnCounter(name, increase, None))
            continue
        begun = bytes_begun(table, number, since_ns, until_ns) if table is volume else None
        found.append(OwnCounter(name, increase, disk_bytes(table, number, since_ns, until_ns), begun))
    return found


def _first_disk(run: Run, block: Block | None, counter: Counter | None, window: Window) -> OwnCounter:
    """The first disk's counters; without a number of it nothing to compare with."""
    increase: dict[str, int | None] = {}
    since_ns, until_ns = window.start_ns, window.end_ns
    if counter is not None:
        increase = {name: memory.increase(counter, f"disk.{name}") for name in DISK_COUNTERS}
        if len(samples_ns := counter.series("disk.write_bytes")[0]):
            since_ns, until_ns = int(samples_ns[0]), int(samples_ns[-1])
    number = counted(run, with_requests(run, block)) if block is not None else None
    if block is None or number is None:
        return OwnCounter("", increase, None)
    return OwnCounter("", increase, disk_bytes(block, number, since_ns, until_ns))


def disk_bytes(block: Block, number: int, since_ns: int, until_ns: int) -> dict[str, int]:
    """Bytes read and written by one device as the kernel counts them: at their end, zeroing as writing.

    since_ns, until_ns: when the counters were first and last read: what ended between is in their increase.
    A request whose end was not seen may have ended long before its bound: it counts if issued until then.
    """
    return _bytes(block, number, since_ns, until_ns, at_begin=False)


def bytes_begun(block: Block, number: int, since_ns: int, until_ns: int) -> dict[str, int]:
    """The same of the bios that were submitted meanwhile."""
    return _bytes(block, number, since_ns, until_ns, at_begin=True)


def _bytes(block: Block, number: int, since_ns: int, until_ns: int, at_begin: bool) -> dict[str, int]:
    labels = block.op.labels
    sums = np.zeros(len(labels) + 1)  # exact below 2**53
    for at in parts(block.rows):
        if at_begin:
            end = by = block.queue_ns[at]
        else:
            end = block.complete_ns[at]
            by = np.where(block.timed[at], end, block.issue_ns[at])
        is_counted = (block.dev[at] == number) & (end >= since_ns) & (by <= until_ns)
        sums += np.bincount(np.where(is_counted, block.op.codes[at], len(labels)), block.bytes[at], sums.size)
    moved = {label: int(total) for label, total in zip(labels, sums, strict=False)}
    read, written = moved.get("read", 0), moved.get("write", 0) + moved.get("write_zeroes", 0)
    return dict(zip(OPS, (read, written), strict=True))
