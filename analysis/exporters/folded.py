# SPDX-License-Identifier: BSD-2-Clause
"""Folded stacks, as flamegraph.pl, inferno and speedscope read them: "outermost;...;innermost;type:lock us".

Values are whole microseconds; what rounding leaves over is carried to the next line, so the sum of a file is
that of the table to within a microsecond. Lines that come to nothing are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from analysis.measures.locks.lock_stacks import Stack

UNSAFE = re.compile(r"[;\s]")


def frame(name: str) -> str:
    """A frame that can't be taken for two, or for a value: no blanks, no semicolons."""
    return UNSAFE.sub("_", name) or "?"


def folded(stacks: Iterable[tuple[Stack, float]]) -> bytes:
    """The file of these stacks, each with its time in ns."""
    lines = []
    whole = written = 0.0
    for stack, ns in stacks:
        whole += ns
        us = round(whole / 1e3 - written)
        if us > 0:
            written += us
            lines.append(";".join(frame(name) for name in stack.frames) + f" {us}\n")
    return "".join(lines).encode("utf-8", "backslashreplace")


def waiting(stacks: list[Stack]) -> bytes:
    """All waiting, spinning and sleeping."""
    return folded((stack, stack.ns) for stack in stacks)


def spinning(stacks: list[Stack], unseen: list[Stack]) -> bytes:
    """Spinning alone: what the tracepoints show, and under a root of its own what only samples show."""
    return folded([(stack, stack.spin_ns) for stack in stacks]) + folded((s, s.ns) for s in unseen)
