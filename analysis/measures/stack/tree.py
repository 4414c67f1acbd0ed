# SPDX-License-Identifier: BSD-2-Clause
"""The tree of a stack: every device once below each of the devices that it is part of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from analysis.rundir.stack import Node, Stack

MOST_BRANCHES = 200


@dataclass(frozen=True)
class Branch:
    """One line of the tree. via: the partition through which the device above uses this one."""

    node: Node
    depth: int
    via: str
    is_repeated: bool  # shown with its parts further up
    is_neighbour: bool  # another volume on the same disks, which the file system does not use


def branches(stack: Stack) -> list[Branch]:
    """The lines from the roots down, then the other volumes on these devices; at most MOST_BRANCHES."""
    lines: list[Branch] = []
    shown: set[str] = set()
    below_a_root = {node.name for root in stack.root_nodes for node in stack.under(root.name)}
    tops = [node for node in stack.root_nodes if node.name not in below_a_root]
    for node in (*tops, *stack.nodes.values()):
        if node.name not in shown:
            _add(lines, shown, stack, node)
    return lines


def _add(lines: list[Branch], shown: set[str], stack: Stack, top: Node) -> None:
    """The lines of one device and all below it, depth first."""
    waiting = [Branch(top, 0, "", False, top.is_neighbour)]
    while waiting and len(lines) < MOST_BRANCHES:
        branch = waiting.pop()
        node = branch.node
        if node.name in shown:
            lines.append(replace(branch, is_repeated=True))
            continue
        shown.add(node.name)
        lines.append(branch)
        waiting += [
            Branch(below, branch.depth + 1, stack.via(node, below), False, top.is_neighbour)
            for below in reversed(stack.below(node.name))
        ]
