# SPDX-License-Identifier: BSD-2-Clause
"""The workload's threads over time: how many ran, waited for a CPU, or slept for which group of causes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from analysis.causes.roles import WORKLOAD
from analysis.causes.rules import rules
from analysis.measures.common.timeline import F64, Timeline
from analysis.measures.threads.parts import ON_CPU, READY
from analysis.tables.store import Categorical
from analysis.tables.thread_time import ThreadTime

LATEST_NS = 1 << 60  # 36 years
USER, KERNEL, READY_KEY = "user", "kernel", "ready"
# from the bottom of the picture; the group "own" (sleep of its own will) is not drawn
SERIES = (USER, KERNEL, READY_KEY, "read", "write", "journal", "lock", "throttle", "memory", "other")


def series_of(kind: str) -> str:
    """The series that a kind of time is drawn in; "" if it is not drawn."""
    if kind == USER:
        return USER
    if kind in ON_CPU:
        return KERNEL
    if kind.startswith(READY):
        return READY_KEY
    cause = rules().causes.get(kind)
    group = cause.group if cause else "other"
    return "" if group == "own" else group


def sums_over_time(
    timeline: Timeline, start_ns: npt.NDArray[np.int64], length_ns: npt.NDArray[np.int64], ns: F64
) -> F64:
    """Sum per bin; a row that spans bins is divided by overlap (it is full, so that this is exact)."""
    # a foreign run may have any times
    start_ns, length_ns = np.clip(start_ns, 0, LATEST_NS), np.clip(length_ns, 0, LATEST_NS)
    first = timeline.index(start_ns)
    last = timeline.index(start_ns + np.maximum(length_ns, 1) - 1)
    inside = first == last
    sums = np.bincount(first[inside], ns[inside], timeline.bins).astype(np.float64)
    rows = np.flatnonzero(~inside)
    pieces = last[rows] - first[rows] + 1
    row = np.repeat(rows, pieces)  # one entry a row and bin
    number = np.arange(row.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    at = first[row] + number
    # what lies outside counts in the nearest bin
    begin = np.where(number == 0, start_ns[row], timeline.edges_ns[at])
    end = np.where(at == last[row], start_ns[row] + length_ns[row], timeline.edges_ns[at + 1])
    return np.asarray(sums + np.bincount(at, ns[row] * (end - begin) / length_ns[row], timeline.bins))


def measure_over_time(times: ThreadTime, kinds: Categorical, timeline: Timeline) -> Mapping[str, F64]:
    """Mean number of the workload's threads by series, per time bin."""
    mine = times.role.is_(WORKLOAD)
    series: dict[str, F64] = {}
    for name in SERIES:
        labels = [label for label in kinds.labels if series_of(label) == name]
        rows = np.flatnonzero(mine & kinds.is_in(labels))
        if rows.size:
            sums = sums_over_time(
                timeline, times.bin_ns[rows], times.bin_length_ns[rows], times.ns[rows].astype(np.float64)
            )
            series[name] = sums / 1e9 / timeline.lengths_s
    return series
