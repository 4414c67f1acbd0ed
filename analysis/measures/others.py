# SPDX-License-Identifier: BSD-2-Clause
"""What did others on the machine do meanwhile: their CPU time, and their share of this disk's bytes?

CPU time is what the session found in /proc before and after the workload (run.json's "others"). A request
is another program's if who submitted it was neither in the workload's cgroup, nor a kernel thread, nor us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.run import Run, as_int, clean, dig
from analysis.tables.block import Block
from analysis.tables.own import OWN

PROGRAMS = 3
LEAST_SHOWN_NS = 50_000_000  # a program that has less is not named: /proc counts in steps of 10 ms
LEAST_NAMES = 5  # kernel threads of any machine; fewer are no list of them


@dataclass(frozen=True)
class Others:
    """None: not known."""

    cpu_ns: int  # of programs outside the workload
    kernel_threads_cpu_ns: int  # of which nobody knows whose work it was
    programs: tuple[tuple[str, int], ...]  # name and CPU time, most first
    disk_bytes: int | None  # read and written by programs outside the workload
    all_disk_bytes: int


def _disk(block: Block, kernel_threads: list[str]) -> tuple[int | None, int]:
    """Bytes that other programs asked this disk for (None: kernel threads are not known), and all bytes."""
    moves = block.moves_data
    whole = int(block.bytes[moves].sum(dtype=np.int64))
    if len(kernel_threads) < LEAST_NAMES:
        return None, whole
    known = set(kernel_threads)
    theirs = [
        code
        for code, name in enumerate(block.comm.labels)
        if name.partition("/")[0] not in known and not name.endswith(OWN)
    ]
    rows = moves & ~block.in_workload & np.isin(block.comm.codes, theirs)
    return int(block.bytes[rows].sum(dtype=np.int64)), whole


def measure_others(run: Run, block: Block | None) -> Others | None:
    """None of a run that did not look at them: an older one, or a live system, where nobody is another."""
    cpu_ns = run.int_("others", "cpu_ns")
    if cpu_ns is None:
        return None
    found = dig(run.facts, "others", "programs")
    programs = [
        (clean(one.get("comm"), 20), as_int(one.get("cpu_ns")) or 0)
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, Mapping)
    ]
    disk_bytes, whole = (None, 0) if block is None else _disk(block, run.words("others", "kernel_threads"))
    return Others(
        cpu_ns=cpu_ns,
        kernel_threads_cpu_ns=run.int_("others", "kernel_threads_cpu_ns") or 0,
        programs=tuple(one for one in programs[:PROGRAMS] if one[1] >= LEAST_SHOWN_NS),
        disk_bytes=disk_bytes,
        all_disk_bytes=whole,
    )
