# SPDX-License-Identifier: BSD-2-Clause
"""Folded stacks for flamegraph.pl, inferno and speedscope, a line per call path: outermost;...;innermost us.

The innermost frame of a lock's stack is "type:name" of the lock. Values are whole microseconds. What
rounding leaves over is carried to the next line, so the sum of a file is that of its stacks to within 1 us.
A line whose value is 0 is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from analysis.measures.locks import lock_stacks
from analysis.measures.locks.lock_stacks import Stack
from analysis.measures.results import Results
from analysis.render.output import Made, Output, RunSource
from analysis.tables.load import Tables

SEPARATORS = re.compile(r"[;\s]")


def frame(name: str) -> str:
    """The name as one frame: blanks and semicolons, which separate frames and values, as "_"."""
    return SEPARATORS.sub("_", name) or "?"


def folded(stacks: Iterable[tuple[Stack, float]]) -> bytes:
    """The lines of the stacks, each with its time in ns."""
    lines = []
    whole_ns = written_us = 0.0
    for stack, ns in stacks:
        whole_ns += ns
        us = round(whole_ns / 1e3 - written_us)
        if us > 0:
            written_us += us
            lines.append(";".join(frame(name) for name in stack.frames) + f" {us}\n")
    return "".join(lines).encode("utf-8", "backslashreplace")


def waiting(stacks: list[Stack]) -> bytes:
    """The time waited, spinning and sleeping together."""
    return folded((stack, stack.ns) for stack in stacks)


def spinning(stacks: list[Stack], unseen: list[Stack]) -> bytes:
    """The time spent spinning.

    stacks: as the lock tracepoints show them. unseen: what CPU samples alone show, under a root of its own.
    """
    return folded([(stack, stack.spin_ns) for stack in stacks]) + folded((s, s.ns) for s in unseen)


def _of_locks(tables: Tables, results: Results) -> dict[str, bytes]:
    waits, samples = results.locks.waits, results.locks.samples
    if waits is None or results.locks.holders is None or not waits.rows:
        return {}
    stacks = lock_stacks.waiting(waits, tables.stacks)
    unseen = lock_stacks.unseen(samples, tables.stacks) if samples else []
    return {
        "waiting.folded": waiting(stacks),
        "holding.folded": waiting(lock_stacks.holding(waits, tables.stacks)),
        "spinning.folded": spinning(stacks, unseen),
    }


def _of_cpus(results: Results) -> dict[str, bytes]:
    profile = results.cpu
    if profile is None or not profile.whole.busy.samples:
        return {}
    stacks = (*profile.stacks_workload, *profile.stacks_others)
    return {"on_cpu.folded": folded((stack, stack.ns) for stack in stacks)}


def make(source: RunSource) -> Made:
    """The files of what was recorded: lock waits, CPU samples."""
    return Made(_of_locks(source.tables, source.results) | _of_cpus(source.results))


NAMES = ("waiting.folded", "holding.folded", "spinning.folded", "on_cpu.folded")
OUTPUT = Output("folded", 10, NAMES, make)
