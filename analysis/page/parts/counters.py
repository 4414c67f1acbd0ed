# SPDX-License-Identifier: BSD-2-Clause
"""Panels of the system's counters: dirty pages and writeback, CPU time, pressure, page cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.figures import style
from analysis.figures.panels.dirty_memory import PANEL
from analysis.page.data import Asked, Content, Panel, Part, Series
from analysis.page.series import line, of_moments
from analysis.page.static import as_static, mark_of
from analysis.tables.counter import Counter
from analysis.tables.store import I64

MOST_SAMPLES = 20_000  # of a counter; of more every second, third, ... is shown
PARTS = 1_000_000  # a rate is kept to this part of one


@dataclass(frozen=True)
class _Line:
    """One counter in a panel."""

    counter: str
    name: str
    color: str


MB = (
    _Line("mem.dirty_bytes", "dirty", style.DIRTY),
    _Line("mem.writeback_bytes", "in writeback", style.WRITEBACK),
)
CACHE = (
    _Line("mem.cached_bytes", "page cache", style.DATA),
    _Line("mem.free_bytes", "free", style.QUIET),
)
CPU = (
    _Line("cpu.user_ns", "own code", style.OTHER_OPS),
    _Line("cpu.system_ns", "kernel", style.DEPTH),
    _Line("cpu.irq_ns", "interrupts", style.METADATA),
    _Line("cpu.iowait_ns", "idle, waiting for I/O", style.DATA),
)
PRESSURE = (
    _Line("psi.io_some_ns", "I/O, some tasks", style.DATA),
    _Line("psi.io_full_ns", "I/O, all tasks", style.DISK_MIDDLE),
    _Line("psi.cpu_some_ns", "CPU, some tasks", style.LOCKS[1]),
    _Line("psi.memory_some_ns", "memory, some tasks", style.OWN),
)


def _samples(asked: Asked, counter: Counter, name: str) -> tuple[I64, I64]:
    """Times and values in the page's time."""
    t, value = counter.series(name)
    low, high = asked.zero_ns + asked.start_ns, asked.zero_ns + asked.end_ns
    inside = np.flatnonzero((t >= low) & (t <= high))
    kept = inside[:: -(-inside.size // MOST_SAMPLES) or 1]
    return t[kept], value[kept]


def _levels(asked: Asked, counter: Counter, lines: Sequence[_Line]) -> list[Series]:
    """Levels in MB."""
    found = []
    for one in lines:
        t, value = _samples(asked, counter, one.counter)
        if t.size:
            found.append(line(one.name, one.color, of_moments(t, asked.zero_ns, value, 1e-6)))
    return found


def _rates(asked: Asked, counter: Counter, lines: Sequence[_Line], scale: float) -> list[Series]:
    """Increase of running totals in ns per ns of the time between two samples, times scale."""
    found = []
    for one in lines:
        t, value = _samples(asked, counter, one.counter)
        if t.size < 2:
            continue
        share = np.diff(value).astype(np.float64) / np.maximum(np.diff(t), 1)
        numbers = np.rint(np.clip(share, 0, 1e6) * PARTS).astype(np.int64)
        if numbers.any():
            source = of_moments(t, asked.zero_ns, np.append(numbers, numbers[-1:]), scale / PARTS)
            found.append(line(one.name, one.color, source))
    return found


def make(asked: Asked) -> Content:
    """The panels that have samples; that of dirty pages always."""
    counter = asked.source.tables.counter
    if counter is None:
        return Content(panels=as_static(PANEL, asked, "MB", "lines", []))
    mark = mark_of(asked, "counters")
    further = [
        Panel(
            "cpu",
            85,
            "CPU time of the whole machine, mean number of CPUs",
            "CPUs",
            "stacked",
            _rates(asked, counter, CPU, 1),
            mark=mark,
        ),
        Panel(
            "pressure",
            92,
            "Pressure (PSI): time in which tasks waited, whole machine, %",
            "%",
            "lines",
            _rates(asked, counter, PRESSURE, 100),
            mark=mark,
        ),
        Panel(
            "page_cache",
            94,
            "Page cache and free memory, whole machine, MB",
            "MB",
            "lines",
            _levels(asked, counter, CACHE),
            mark=mark,
        ),
    ]
    dirty = as_static(PANEL, asked, "MB", "lines", _levels(asked, counter, MB))
    return Content(panels=[*dirty, *(panel for panel in further if panel.series)])


PART = Part("counters", 420, make)
