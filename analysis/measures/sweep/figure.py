# SPDX-License-Identifier: BSD-2-Clause
"""One figure of one run, and the kinds of figures."""

from __future__ import annotations

from dataclasses import dataclass

METRIC = "metric"  # the workload's own result
PHASE = "phase"
OUTCOME = "outcome"
CAUSE = "cause"
LOCK = "lock"  # share of all CPU time spent spinning on one class of locks
WITHIN = "within"  # of the series of one run: see within_run.py
TIME = "time"  # seconds of the workload's time that one cause took: see run_times.py
WORK = "work"  # what the workload did, by count
MOST_VALUE = 1e100  # beyond it sums of squares overflow: no figure of a run is so large
KINDS = (METRIC, PHASE, OUTCOME, CAUSE, LOCK, WITHIN, TIME, WORK)


@dataclass(frozen=True)
class Figure:
    """One value of one run. better: higher, lower, or "" if neither is."""

    measure: str  # its name, unique within a run
    unit: str
    value: float
    kind: str
    better: str = ""
    headline: bool = False  # the figure by which configurations are ranked
    bound: bool = False  # the true value is at least this
    lossy: bool = False  # a collector behind it lost events
