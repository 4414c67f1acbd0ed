# SPDX-License-Identifier: BSD-2-Clause
"""Bytes of the disks over bytes of the volumes above them, by direction: copies, parity, and layers' own I/O.

Each request of a disk names the volume whose bio it serves. What layers do on their own serves none. A disk
of a raid5 merges data and parity: of such a request, the parity among its bytes counts apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.block.throughput import OPS
from analysis.rundir.stack import Stack
from analysis.tables.block import Block
from analysis.tables.store import Ints
from analysis.tables.top import sent_to

DIRECTLY = "no volume"  # requests that a file system or program sent to the disk itself


@dataclass(frozen=True)
class Amplification:
    """One direction. top: bytes of the file system's bios to its volumes; the others: bytes at the disks."""

    op: str
    top_bytes: int
    served_bytes: int  # of requests that serve these bios
    parity_bytes: int
    own_bytes: int  # class volume

    @property
    def served(self) -> float | None:
        """Served bytes over the volumes'; None without any."""
        return self.served_bytes / self.top_bytes if self.top_bytes else None

    @property
    def whole(self) -> float | None:
        """All bytes of the disks for the volumes over the volumes' bytes; None without any."""
        disk_bytes = self.served_bytes + self.parity_bytes + self.own_bytes
        return disk_bytes / self.top_bytes if self.top_bytes else None


def measure_amplification(
    stack: Stack, block: Block | None, volume: Block | None, tops: Sequence[int]
) -> list[Amplification]:
    """One row a direction; none without disks below the volumes. tops: numbers of the roots' volumes."""
    if block is None or volume is None or not any(stack.leaves_under(top.name) for top in stack.tops):
        return []
    is_top = sent_to(volume, tops)
    is_served = np.isin(block.origin_dev, tops)
    parity = block.parity_bytes
    rows = []
    for op in OPS:
        on_top, on_disks = volume.op.is_(op), block.op.is_(op)
        rows.append(
            Amplification(
                op=op,
                top_bytes=_sum(volume.bytes, is_top & on_top),
                served_bytes=_sum(block.bytes - parity, on_disks & is_served),
                parity_bytes=_sum(parity, on_disks),
                own_bytes=_sum(block.bytes - parity, on_disks & block.class_.is_("volume")),
            )
        )
    return rows


@dataclass(frozen=True)
class OriginRow:
    """Bytes of one disk for one origin: a top volume's name, DIRECTLY, "volume" (layers' own) or "parity"."""

    leaf: str
    origin: str
    requests: int
    read_bytes: int
    write_bytes: int


def measure_origins(stack: Stack, block: Block | None) -> list[OriginRow]:
    """Requests of each disk by whom they serve, in the order of the stack; empty without disks."""
    if block is None:
        return []
    names = {node.number: node.name for node in stack.nodes.values()}
    rows = []
    is_layers = {class_: block.class_.is_(class_) for class_ in ("parity", "volume")}
    any_layers = is_layers["parity"] | is_layers["volume"]
    origins = [int(number) for number in np.unique(block.origin_dev)]
    for leaf in stack.leaves:
        on_leaf = block.dev == leaf.number
        groups = {
            names.get(number, "another volume") if number else DIRECTLY: (
                on_leaf & (block.origin_dev == number) & ~any_layers
            )
            for number in sorted(origins, key=lambda number: (number == 0, number))
        }
        groups |= {class_: on_leaf & mask for class_, mask in is_layers.items()}
        rows += [
            OriginRow(
                leaf=leaf.name,
                origin=origin,
                requests=int(np.count_nonzero(mask)),
                read_bytes=_sum(block.bytes, mask & block.op.is_("read")),
                write_bytes=_sum(block.bytes, mask & block.op.is_("write")),
            )
            for origin, mask in groups.items()
            if mask.any()
        ]
    return rows


def _sum(size: Ints, mask: np.ndarray) -> int:
    return int(size[mask].sum(dtype=np.int64))
