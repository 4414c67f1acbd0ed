# SPDX-License-Identifier: BSD-2-Clause
"""What each interval of a thread is by itself: on a CPU, ready, or asleep with the cause of its stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.causes.classify import Waited, classify
from analysis.causes.rules import NO_STACK
from analysis.measures.critical_path.intervals import Intervals, State
from analysis.measures.critical_path.stretches import I32, NONE, Mask
from analysis.measures.critical_path.walk import Wakes
from analysis.measures.threads.parts import VOLUNTARY

ON_CPU, READY, OVER, LOST, UNRECORDED = "on a CPU", "ready", "over", "lost", "not recorded"
PLAIN = {
    State.RUNNING: ON_CPU,
    State.RUNNABLE: READY,
    State.OVER: OVER,
    State.UNKNOWN: LOST,
    State.UNRECORDED: UNRECORDED,
}
OWN_WILL = "ipc"  # the cause of an interruptible sleep without a stack that a process of the workload ends
IDLE = "idle"  # the cause of such a sleep of a kernel thread
SLEEPING = "sleeping"


@dataclass(frozen=True)
class Causes:
    """What each interval is. code: of each interval, into `waited`."""

    code: I32
    waited: list[Waited]

    def is_in(self, causes: Sequence[str]) -> Mask:
        """Mask of the intervals with one of these causes."""
        has = np.array([waited.cause in causes for waited in self.waited], dtype=np.bool_)
        return has[self.code]


def make_causes(
    intervals: Intervals,
    wakes: Wakes,
    states: Sequence[str],
    stacks: Mapping[int, Sequence[str]],
    is_kernel: Mask,
) -> Causes:
    """states: labels of Intervals.slept. is_kernel: threads."""
    waited: dict[Waited, int] = {}

    def number(one: Waited) -> int:
        return waited.setdefault(one, len(waited))

    plain = np.zeros(len(State), dtype=np.int32)
    for state, cause in PLAIN.items():
        plain[state] = number(Waited(cause, ""))
    code = plain[intervals.state]
    asleep = np.flatnonzero(intervals.state == State.ASLEEP)
    # whom a short sleep without a stack waited for tells whether it was of the thread's own will
    wake = intervals.wake[asleep]
    by_thread = np.zeros(asleep.size, dtype=np.bool_)
    if wakes.waker.size:
        by_thread = (wake >= 0) & (wakes.request[np.maximum(wake, 0)] < 0)
    key = ((intervals.stack_id[asleep].astype(np.int64) + 1) << 16) | (
        (intervals.slept[asleep].astype(np.int64) + 1) << 1
    )
    kernel = is_kernel[intervals.thread[asleep]].astype(np.int64) << 15
    keys, of_row = np.unique(key | by_thread | kernel, return_inverse=True)
    codes = np.zeros(keys.size, dtype=np.int32)
    for i, one in enumerate(keys.tolist()):
        stack_id, slept = (one >> 16) - 1, ((one & 0x7FFF) >> 1) - 1
        how = states[slept] if 0 <= slept < len(states) else ""
        frames = stacks.get(stack_id) if stack_id >= 0 else None
        if frames:
            found = classify(tuple(frames), how)
        elif how == SLEEPING and one >> 15 & 1:
            found = Waited(IDLE, "")
        else:
            found = Waited(OWN_WILL if one & 1 and how == SLEEPING else NO_STACK, "")
        codes[i] = number(found)
    code[asleep] = codes[of_row]
    return Causes(code, list(waited))


def is_voluntary(causes: Causes) -> Mask:
    """Mask of the intervals in which a thread slept of its own will."""
    return causes.is_in(VOLUNTARY)


def is_idle(intervals: Intervals, is_kernel: Mask, states: Sequence[str]) -> Mask:
    """Mask of the sleeps of kernel threads for want of work: interruptible ones, and the first one.

    A kernel thread at work sleeps uninterruptibly. is_kernel: threads. states: labels of Intervals.slept.
    """
    sleeping = states.index(SLEEPING) if SLEEPING in states else NONE
    idle = (intervals.slept == sleeping) | (intervals.slept == NONE)
    return np.asarray((intervals.state == State.ASLEEP) & idle & is_kernel[intervals.thread])
