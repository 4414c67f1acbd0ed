# SPDX-License-Identifier: BSD-2-Clause
"""Imbalance between the disks that share one volume or file system: the busiest over the mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.measures.stack.traffic import Traffic
from analysis.rundir.stack import JOURNAL_ROLES, Node, Stack

LEAST_RATIO = 1.2  # below this, disks count as equally busy
DEFINITION = f"imbalance: the disk with most over the mean of the disks, shown from {LEAST_RATIO:g} on."


@dataclass(frozen=True)
class Imbalance:
    """of: what is shared; what: bytes or busy time; ratio: the largest over the mean."""

    of: str
    what: str
    busiest: str
    ratio: float
    disks: int


def measure_balance(
    stack: Stack, traffic: Mapping[str, Traffic], busy_ns: Mapping[int, int]
) -> list[Imbalance]:
    """All imbalances from LEAST_RATIO on. busy_ns: active time by device number; absent: never active."""
    found = []
    for of, leaves in _groups(stack).items():
        for what, values in (
            ("bytes", [traffic[leaf.name].bytes for leaf in leaves]),
            ("busy time", [busy_ns.get(leaf.number, 0) for leaf in leaves]),
        ):
            mean = sum(values) / len(values)
            if mean > 0 and max(values) / mean > LEAST_RATIO:
                busiest = leaves[values.index(max(values))].name
                found.append(Imbalance(of, what, busiest, max(values) / mean, len(leaves)))
    return found


def _groups(stack: Stack) -> dict[str, list[Node]]:
    """The disks below each volume of the file system, and the disks that it uses itself, if several."""
    groups = {top.label: stack.leaves_under(top.name) for top in stack.tops}
    groups["the file system"] = [
        node for node in stack.root_nodes if node.is_leaf and stack.role(node.name) not in JOURNAL_ROLES
    ]
    return {of: leaves for of, leaves in groups.items() if len(leaves) > 1}
