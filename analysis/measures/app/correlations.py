# SPDX-License-Identifier: BSD-2-Clause
"""Which series of a run are correlated with application throughput, over bins of the workload's time.

The series: device throughput, seeks, metadata share, lock waiting and dirty pages. If a requested collector
recorded nothing, its series stays in the list without a coefficient.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.measures.app import memory
from analysis.measures.app.correlation import Correlation, correlate, meaningful
from analysis.measures.app.throughput import middle_ns, moves_bytes
from analysis.measures.block.seeks import seek_times
from analysis.measures.block.view import Views
from analysis.measures.common.timeline import F64, Timeline, make_timeline, nice_width_ns
from analysis.measures.common.window import QUANTUM_NS, Window
from analysis.tables.block import Block
from analysis.tables.call import Call
from analysis.tables.counter import Counter
from analysis.tables.lock_wait import LockWait
from analysis.tables.store import I64

BINS = 400
LONGEST_BIN_NS = 1_000_000_000
MOST_BINS = 100_000  # then bins get longer: memory stays bounded whatever times a run states


@dataclass(frozen=True)
class Correlations:
    """Correlation of each series with application throughput."""

    series: list[Correlation]
    timeline: Timeline  # the bins
    absent: str = ""  # the reason if `series` is empty


def correlation_timeline(window: Window) -> Timeline:
    """About BINS bins of the workload's time, none longer than LONGEST_BIN_NS below MOST_BINS bins."""
    span = window.work_end_ns - window.work_start_ns
    width = min(nice_width_ns(span, BINS, QUANTUM_NS), LONGEST_BIN_NS)
    width = max(width, nice_width_ns(span, MOST_BINS, QUANTUM_NS))
    return make_timeline(window.work_start_ns, window.work_end_ns, window.start_ns, width, QUANTUM_NS)


def measure_correlations(
    asked: Collection[str],
    window: Window,
    call: Call | None,
    app_absent: str,
    views: Views | None,
    waits: LockWait | None,
    counter: Counter | None,
) -> Correlations:
    """asked: the collectors that were asked for; app_absent: why application throughput is not known."""
    timeline = correlation_timeline(window)
    if call is None or app_absent:
        return Correlations([], timeline, f"no application throughput: {app_absent}")

    def inside(t: I64) -> npt.NDArray[np.bool_]:
        return np.asarray((t >= window.work_start_ns) & (t < window.work_end_ns))

    rows = moves_bytes(call, "read") | moves_bytes(call, "write")
    rows &= inside(middle_ns(call))
    app = timeline.rates(middle_ns(call)[rows], call.bytes[rows])
    others: list[tuple[str, F64 | None]] = []
    if views is not None:
        block = views.top.block
        rw = block.moves_data & inside(block.complete_ns)
        others.append(("device throughput", timeline.rates(block.complete_ns[rw], block.bytes[rw])))
        if views.has_disks:
            times = seek_times(views.disks.block, views.disks.distances)
            others.append(("seeks/s", timeline.rates(times[inside(times)])))
        others.append(("metadata share of device bytes", _metadata_share(block, timeline)))
    elif "block" in asked:  # what was not asked for is not missing
        others += [("device throughput", None), ("seeks/s", None), ("metadata share of device bytes", None)]
    if waits is not None:
        middle = waits.bin_ns + waits.bin_length_ns // 2
        w = inside(middle)
        others.append(("lock wait", timeline.rates(middle[w], (waits.spin_ns + waits.sleep_ns)[w])))
    elif "locks" in asked:
        others.append(("lock wait", None))
    if counter is not None or "counters" in asked:
        level = memory.level(counter, "mem.dirty_bytes", timeline) if counter else None
        others.append(("dirty pages, whole machine", level))
    correlations = [
        correlate(name, app, values)
        if values is not None
        else Correlation(name, 0, why_not="its collector has nothing")
        for name, values in others
    ]
    return Correlations(meaningful(correlations), timeline)


def _metadata_share(block: Block, timeline: Timeline) -> F64:
    """Metadata and journal over bytes of known class, per bin; NaN where no byte of known class moved."""
    metadata = block.moves_data & block.class_.is_in(("metadata", "journal"))
    known_class = metadata | (block.moves_data & block.class_.is_("data"))
    metadata_bytes = timeline.sums(block.complete_ns[metadata], block.bytes[metadata])
    known_bytes = timeline.sums(block.complete_ns[known_class], block.bytes[known_class])
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known_bytes > 0, metadata_bytes / known_bytes, np.nan)
