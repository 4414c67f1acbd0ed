# SPDX-License-Identifier: BSD-2-Clause
"""What emulated disks did while the critical path was at their requests: by state, and by class of what
they served.

A request waits while the disk serves others: its time is not its own seek's, but whatever the disk did then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.measures.at_device.pieces import AtRequests
from analysis.measures.common.timeline import F64
from analysis.measures.disk.results import DisksResults
from analysis.measures.disk.states import BUSY, State
from analysis.tables.block import Block

MOST_VALUES = 1 << 26  # pieces times states and classes; of more, classes are not told apart
HeadNs = Mapping[tuple[State, str], float]  # "": any class


@dataclass(frozen=True)
class Head:
    """Time of each piece by state and class; pieces of other disks have none."""

    ns: Mapping[tuple[State, str], F64]
    is_known: F64  # 1.0: a piece at a request to an emulated disk

    def of(self, state: State) -> F64:
        """Time of each piece in one state."""
        found = [ns for (one, _), ns in self.ns.items() if one == state]
        return np.asarray(np.sum(found, axis=0)) if found else np.zeros_like(self.is_known)

    def sums(self, share: F64, only: State | None = None) -> dict[tuple[State, str], float]:
        """Time by state and class, of this share of each piece."""
        sums = {
            key: float((share * ns).sum()) for key, ns in self.ns.items() if only is None or key[0] == only
        }
        return {key: ns for key, ns in sums.items() if ns > 0}


def head_of(disks: DisksResults | None, block: Block, at: AtRequests) -> Head | None:
    """None: no piece is at a request to an emulated disk."""
    if disks is None or disks.joined is None:
        return None
    labels = disks.joined.class_.labels
    dev = np.where(at.row >= 0, block.dev[np.maximum(at.row, 0)], -1)
    known = np.zeros(at.row.size)
    found: dict[tuple[State, str], F64] = {}
    by_class = at.row.size * len(BUSY) * len(labels) <= MOST_VALUES
    for number, states in disks.states.items():
        mine = np.flatnonzero(dev == number)
        if not mine.size:
            continue
        known[mine] = 1.0
        begin, end = at.begin[mine], at.end[mine]
        for state in BUSY:
            for code, label in enumerate(labels) if by_class else [(None, "")]:
                spent = states.of(state, code)
                if spent.begin.size:
                    ns = found.setdefault((state, label), np.zeros(at.row.size))
                    ns[mine] = spent.within(begin, end)
    return Head(found, known) if known.any() else None
