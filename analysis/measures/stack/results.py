# SPDX-License-Identifier: BSD-2-Clause
"""Results of the stack of devices below a file system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.measures.stack.amplification import (
    Amplification,
    OriginRow,
    measure_amplification,
    measure_origins,
)
from analysis.measures.stack.balance import Imbalance, measure_balance
from analysis.measures.stack.layer_times import LayerTime, measure_layer_times
from analysis.measures.stack.traffic import Traffic, measure_traffic
from analysis.measures.stack.tree import Branch, branches
from analysis.rundir.stack import Stack
from analysis.tables.block import Block


@dataclass(frozen=True)
class StackResults:
    """One field per subject; traffic by the device's name."""

    stack: Stack
    branches: list[Branch]
    traffic: Mapping[str, Traffic]
    amplification: list[Amplification]
    origins: list[OriginRow]
    layer_times: list[LayerTime]
    imbalances: list[Imbalance]


def measure_stack(
    stack: Stack, block: Block | None, volume: Block | None, busy_ns: Mapping[int, int]
) -> StackResults | None:
    """The results; None for a run on one disk, and for older runs. busy_ns: active time by device number."""
    if not stack.is_stated or is_one_disk(stack):
        return None
    tops = stack.top_numbers
    traffic = measure_traffic(stack, block, volume)
    return StackResults(
        stack=stack,
        branches=branches(stack),
        traffic=traffic,
        amplification=measure_amplification(stack, block, volume, tops),
        origins=measure_origins(stack, block),
        layer_times=measure_layer_times(block, volume, tops),
        imbalances=measure_balance(stack, traffic, busy_ns),
    )


def is_one_disk(stack: Stack) -> bool:
    """Whether the file system uses one disk, and that no other: a loop device may lie on a device."""
    return len(stack.root_nodes) <= 1 and all(
        node.is_leaf and not stack.below(node.name) for node in stack.root_nodes
    )
