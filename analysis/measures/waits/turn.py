# SPDX-License-Identifier: BSD-2-Clause
"""Syncs that processes make for one another, as Btrfs's tree log: until when a sync waits for its turn.

One process writes the log, the others wait until it ends their sleep. Either that log is the one before
theirs, and they go on to write their own: all of the wait is for others. Or it has theirs in it: then only
the time is for others in which that process waits itself for the log before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from analysis.causes.classify import function_name
from analysis.causes.rules import rules
from analysis.measures.critical_path.intervals import State
from analysis.measures.critical_path.results import PathRows
from analysis.tables.store import I64
from analysis.tables.wake import Wake

Mask = npt.NDArray[np.bool_]
MOST = 0.5  # share of the sleeps of a call path


def woken_by(wake: I64, rows: PathRows, wakes: Wake | None, role: str) -> I64:
    """Index of the thread of this recorded role that ended each sleep; -1: another, or not known."""
    found = np.full(wake.size, -1, dtype=np.int64)
    known = np.flatnonzero(wake >= 0)
    if wakes is None or not known.size:
        return found
    index = rows.intervals.index(wakes.waker[wake[known]])
    has_role = np.array([recorded == role for recorded in rows.owners.recorded] or [False])
    mine = wakes.context.is_("task")[wake[known]] & (index >= 0) & has_role[np.maximum(index, 0)]
    found[known[mine]] = index[mine]
    return found


def waits_itself(thread: I64, t_ns: I64, rows: PathRows, cause: str) -> Mask:
    """Whether each thread sleeps for this cause at each time. thread: index; -1: none."""
    intervals = rows.intervals
    found = np.zeros(thread.size, dtype=np.bool_)
    known = np.flatnonzero(thread >= 0)
    if not known.size or not intervals.key.size:
        return found
    at = np.searchsorted(intervals.key, intervals.keys(thread[known], t_ns[known]), side="right") - 1
    at = np.maximum(at, 0)
    is_cause = np.array([one.cause == cause for one in rows.causes.waited] or [False])
    found[known] = (
        (intervals.thread[at] == thread[known])
        & (intervals.state[at] == State.ASLEEP)
        & is_cause[rows.causes.code[at]]
    )
    return found


def is_before_own(
    mine: Mask, root: I64, sleep: I64, begin_ns: I64, stack_id: I64, stacks: Mapping[int, Sequence[str]]
) -> Mask:
    """Which of these sleeps (a row or more each) are for the log before: most of their call path go on in it.

    The call path has the place in the code, so all sleeps with one are for the same.
    """
    found = np.zeros(mine.size, dtype=np.bool_)
    if not mine.any():
        return found
    order = np.lexsort((begin_ns, root))
    is_last = np.concatenate((sleep[order[1:]] != sleep[order[:-1]], [True]))
    last = order[is_last]
    here, after = last[:-1], last[1:]
    votes: dict[int, list[int]] = {}
    at = np.flatnonzero(mine[here] & (root[here] == root[after]))
    pairs, counts = np.unique(
        np.stack([stack_id[here[at]], stack_id[after[at]]], axis=1), axis=0, return_counts=True
    )
    for (one, other), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        vote = votes.setdefault(one, [0, 0])
        vote[0] += count * _goes_on(stacks.get(one) or (), stacks.get(other) or ())
        vote[1] += count
    chosen = [one for one, (goes_on, all_) in votes.items() if goes_on > MOST * all_]
    return mine & np.isin(stack_id, chosen)


def _goes_on(frames: Sequence[str], following: Sequence[str]) -> bool:
    """Whether the second call path is of another wait in the function that made the first one."""
    names, then = (
        [name for frame in path if not rules().skip.match(name := function_name(frame))]
        for path in (frames, following)
    )
    return len(names) > 1 and bool(then) and then[0] != names[0] and names[1] in then[1:]
