# SPDX-License-Identifier: BSD-2-Clause
"""Requests of mkfs, mount, unmount and fsck, if the run recorded them (WITH=).

Requests and bytes by the time of completion, seeks by the time of issue, as for phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.block.seeks import Distances, seek_times
from analysis.measures.block.view import Views
from analysis.tables.block import Block
from analysis.tables.phase import Phases
from analysis.tables.store import I64

ERASES = ("discard", "write_zeroes", "secure_erase")


@dataclass(frozen=True)
class Step:
    """One step of a run outside of the workload's time. None: no requests were recorded."""

    name: str
    elapsed_s: float
    requests: int | None
    read_bytes: int | None
    write_bytes: int | None
    erased_bytes: int | None  # discarded, or set to zero without data
    seeks: int | None


@dataclass(frozen=True)
class OutsideWorkload:
    """Steps and requests outside of the workload's time; empty unless mkfs or fsck were recorded."""

    steps: Sequence[Step] = ()
    requests: int | None = None  # None: nothing was clipped, or no requests were recorded


def measure_steps(
    phases: Phases, views: Views | None, distances: Distances | None, start_ns: int, end_ns: int
) -> list[Step]:
    """The phases that lie before start_ns or after end_ns, between which the workload ran.

    Requests and bytes are those that were asked of the file system's devices, seeks those of the disks.
    distances: of the disks' requests; None without views.
    """
    block: Block | None = None
    seeks: I64 | None = None
    if views is not None and distances is not None:
        block = views.top.block
        seeks = seek_times(views.disks.block, distances)
    steps = []
    for name, begin, end in zip(phases.name, phases.start_ns.tolist(), phases.end_ns.tolist(), strict=True):
        if end > start_ns and begin < end_ns:
            continue
        elapsed_s = (end - begin) / 1e9
        if block is None or seeks is None:
            steps.append(Step(name, elapsed_s, None, None, None, None, None))
            continue
        inside = (block.complete_ns >= begin) & (block.complete_ns < end)

        def moved(ops: tuple[str, ...], inside: np.ndarray = inside, block: Block = block) -> int:
            return int(block.bytes[inside & block.op.is_in(ops)].sum())

        steps.append(
            Step(
                name=name,
                elapsed_s=elapsed_s,
                requests=int(np.count_nonzero(inside)),
                read_bytes=moved(("read",)),
                write_bytes=moved(("write",)),
                erased_bytes=moved(ERASES),
                seeks=int(np.count_nonzero((seeks >= begin) & (seeks < end))),
            )
        )
    return steps
