# SPDX-License-Identifier: BSD-2-Clause
"""The tree of a stack: every device once below each of the devices that it is part of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    for line in _lines(stack, shown):
        if len(lines) == MOST_BRANCHES:
            break
        lines.append(line)
    return lines


def _lines(stack: Stack, shown: set[str]) -> Iterator[Branch]:
    below_a_root = {node.name for root in stack.root_nodes for node in stack.under(root.name)}
    for node in stack.root_nodes:
        if node.name not in below_a_root:
            yield from _down(stack, node, 0, "", shown, is_neighbour=False)
    for node in stack.nodes.values():
        if node.name not in shown:
            yield from _down(stack, node, 0, "", shown, is_neighbour=node.is_neighbour)


def _down(
    stack: Stack, node: Node, depth: int, via: str, shown: set[str], is_neighbour: bool
) -> Iterator[Branch]:
    is_repeated = node.name in shown
    yield Branch(node, depth, via, is_repeated, is_neighbour)
    if is_repeated:
        return
    shown.add(node.name)
    for below in stack.below(node.name):
        yield from _down(stack, below, depth + 1, stack.via(node, below), shown, is_neighbour)
