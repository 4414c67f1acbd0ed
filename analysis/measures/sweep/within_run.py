# SPDX-License-Identifier: BSD-2-Clause
"""Throughput within one run: its warm-up, and an interval from batches where these are independent.

The series is the throughput of the main phase, the one that took longest: the application's where calls were
recorded, else the disk's. Time bins that reach beyond the phase are left out.
"""

from __future__ import annotations

import numpy as np

from analysis.measures.block.throughput import OPS
from analysis.measures.common.timeline import F64
from analysis.measures.compare.compared_run import Compared
from analysis.measures.statistics.batches import batch_means
from analysis.measures.statistics.warm_up import mser5
from analysis.measures.sweep.figure import WITHIN, Figure

BINS = "bins of the main phase"
WHOLE = "throughput of the main phase"
WARM = "throughput without warm-up"
CUT_S = "warm-up"
IN_SECOND_HALF = "warm-up refused: the cut is in the second half"
BATCHES = "independent batches"
BATCH_HALF = "half-width over batches"
NOT_MAIN = ("verify", "warm-up", "layout", "remount")  # phases that prepare or check


def main_phase(compared: Compared) -> str:
    """Name of the phase that took longest, of those that neither prepare nor check; "": no phases."""
    rows = [row for row in compared.results.phases or [] if row.times > 0 and row.name not in NOT_MAIN]
    return max(rows, key=lambda row: row.elapsed_s).name if rows else ""


def throughput(compared: Compared) -> F64 | None:
    """MB/s in each time bin of the main phase; None: none was recorded."""
    results = compared.results
    if results.app.mb_s is not None:
        series = sum(results.app.mb_s[op] for op in OPS)
    elif results.block is not None:
        series = sum(sum(results.block.throughput.mb_s[op].values()) for op in OPS)
    else:
        return None
    name, edges = main_phase(compared), results.timeline.edges_ns
    inside = np.zeros(results.timeline.bins, dtype=bool)
    if name and compared.phases is not None:
        phases = zip(compared.phases.name, compared.phases.start_ns, compared.phases.end_ns, strict=True)
        for phase, start, end in phases:
            if phase == name:
                inside |= (edges[:-1] >= start) & (edges[1:] <= end)
    else:
        inside[:] = (edges[:-1] >= results.window.work_start_ns) & (edges[1:] <= results.window.work_end_ns)
    return np.asarray(series, dtype=np.float64)[inside]


def within_run(compared: Compared) -> list[Figure]:
    """Figures of kind WITHIN; empty without a series."""
    series = throughput(compared)
    warm = mser5(series) if series is not None and series.any() else None
    if series is None or warm is None:
        return []
    is_lossy = bool(compared.run.lossy("calls" if compared.results.app.mb_s is not None else "block"))

    def figure(name: str, unit: str, value: float) -> Figure:
        return Figure(name, unit, value, WITHIN, lossy=is_lossy)

    figures = [figure(BINS, "", series.size), figure(WHOLE, "MB/s", warm.mean_with)]
    if warm.mean_without is not None:
        width_s = compared.results.timeline.width_ns / 1e9
        figures += [figure(WARM, "MB/s", warm.mean_without), figure(CUT_S, "s", warm.cut * width_s)]
    elif warm.cut:
        figures.append(figure(IN_SECOND_HALF, "", 1))
    batches = batch_means(series if warm.refused else series[warm.cut :])
    mean = batches.mean if batches is not None else None
    if mean is not None and mean.half_width is not None:
        figures += [figure(BATCHES, "", mean.n), figure(BATCH_HALF, "MB/s", mean.half_width)]
    return figures
