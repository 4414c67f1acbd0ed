# SPDX-License-Identifier: BSD-2-Clause
"""Sleeps that a stop of the thread interrupted: the same wait goes on behind the stop.

SIGSTOP and the freezer wake a thread that sleeps, and it stops; let go on, it enters the same call again. Who
woke it to stop it is not whom it waited for: that is who ends the wait behind the stop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.causes.classify import function_name
from analysis.measures.critical_path.intervals import Intervals, State
from analysis.measures.critical_path.stretches import Mask
from analysis.tables.store import I64

INTERRUPTIBLE = "sleeping"
# of these a thread that sleeps is woken; a tracer (ptrace_stop) waits until it stops by itself
STOPS = ("do_signal_stop", "do_freezer_trap", "__refrigerator")
SOON_NS = 1_000_000  # on a CPU between the sleep and the stop, and behind it


def over_stops(intervals: Intervals, states: Sequence[str], stacks: Mapping[int, Sequence[str]]) -> Intervals:
    """The same with the wake-ups behind the stops. states: labels of Intervals.slept."""
    asleep = np.flatnonzero(intervals.state == State.ASLEEP)
    if not asleep.size:
        return intervals
    is_stop = _is_stop(intervals, asleep, stacks)
    if not is_stop.any():
        return intervals
    code = states.index(INTERRUPTIBLE) if INTERRUPTIBLE in states else len(states)
    wake, weak = intervals.wake.copy(), intervals.weak.copy()
    run_ns = np.concatenate(([0], np.cumsum(_run_ns(intervals))))
    # the last first: what is behind a stop may be cut by the next
    for at in np.flatnonzero(is_stop)[::-1].tolist():
        if at == 0 or at + 1 == asleep.size:
            continue
        before, stop, behind = asleep[at - 1 : at + 2].tolist()
        threads = {int(intervals.thread[row]) for row in (before, stop, behind)}
        is_same = len(threads) == 1 and intervals.stack_id[before] == intervals.stack_id[behind] >= 0
        is_soon = run_ns[behind] - run_ns[before] < 2 * SOON_NS
        if is_same and is_soon and intervals.slept[before] == intervals.slept[behind] == code:
            wake[before], weak[before] = wake[behind], weak[behind]
    return replace(intervals, wake=wake, weak=weak)


def _is_stop(intervals: Intervals, rows: I64, stacks: Mapping[int, Sequence[str]]) -> Mask:
    ids = intervals.stack_id[rows]
    stopped = [
        one
        for one in np.unique(ids[ids >= 0]).tolist()
        if any(function_name(frame) in STOPS for frame in stacks.get(one, ()))
    ]
    return np.isin(ids, stopped)


def _run_ns(intervals: Intervals) -> I64:
    """Time on a CPU of each interval."""
    return np.where(intervals.state == State.RUNNING, intervals.end - intervals.begin, 0)
