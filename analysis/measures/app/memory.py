# SPDX-License-Identifier: BSD-2-Clause
"""Dirty pages and pages under writeback, in bytes, of the whole machine; and increases of counters.

Levels are sampled: a time bin shows the mean of its samples; a bin without a sample is NaN, not zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64, Timeline
from analysis.tables.counter import Counter

DEFINITION = "levels of the whole machine, not of the workload alone; the mean of the samples in a bin."


def level(counter: Counter, name: str, timeline: Timeline) -> F64:
    """Mean of a level counter per bin; NaN where it was not sampled."""
    t, value = counter.series(name)
    counts = timeline.sums(t)
    sums = timeline.sums(t, value)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)


def increase(counter: Counter, name: str, dev: int = 0) -> int | None:
    """Last minus first value of a cumulative counter, of this device (0: the machine's).

    None with fewer than two samples.
    """
    _, value = counter.series(name, dev)
    return int(value[-1] - value[0]) if value.size >= 2 else None


@dataclass(frozen=True)
class MemoryLevels:
    """Bytes per time bin."""

    dirty: F64
    writeback: F64


def measure_memory(counter: Counter, timeline: Timeline) -> MemoryLevels:
    """The levels over the timeline's bins."""
    return MemoryLevels(
        dirty=level(counter, "mem.dirty_bytes", timeline),
        writeback=level(counter, "mem.writeback_bytes", timeline),
    )
