# SPDX-License-Identifier: BSD-2-Clause
"""Lock waits as stacks with a time each, for flame graphs and folded stacks.

Frames go from the outermost function inward; the last one is the lock, as "type:name".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.measures.locks import lock_names
from analysis.measures.locks.lock_holders import TASK_STATES
from analysis.measures.locks.lock_samples import Samples
from analysis.measures.locks.lock_waits import LockWaits
from analysis.measures.locks.waits_by_stack import group
from analysis.tables.lock_wait import NOT_SAMPLED

UNSEEN = "[unseen by tracepoints, estimated by CPU samples]"


@dataclass(frozen=True)
class Stack:
    """One call path and its time, spinning and sleeping."""

    frames: tuple[str, ...]
    spin_ns: float
    sleep_ns: float

    @property
    def ns(self) -> float:
        """Both."""
        return self.spin_ns + self.sleep_ns


def functions(stack_id: int, stacks: Mapping[int, list[str]], inner: bool) -> tuple[str, ...]:
    """Functions from the outermost inward; inner: the locking primitives too."""
    frames = stacks.get(stack_id, [])
    if not frames:
        return (lock_names.NOT_SAMPLED if stack_id == NOT_SAMPLED else lock_names.NO_PATH,)
    frames = frames if inner else lock_names.callers(frames)
    return tuple(lock_names.symbol(frame) or "?" for frame in reversed(frames))


def _merged(ns_by_frames: dict[tuple[str, ...], list[float]]) -> list[Stack]:
    return [Stack(frames, *sums) for frames, sums in sorted(ns_by_frames.items()) if sum(sums) > 0]


def waiting(waits: LockWaits, stacks: Mapping[int, list[str]]) -> list[Stack]:
    """Call paths of the waiters; the sums equal those of the lock_wait table."""
    groups = group([waits.row_of_path, waits.paths.stack_id])
    spin, sleep = groups.sums(waits.paths.spin_ns), groups.sums(waits.paths.sleep_ns)
    ns_by_frames: dict[tuple[str, ...], list[float]] = {}
    for g, first in enumerate(groups.first.tolist()):
        row = waits.rows[waits.row_of_path[first]]
        frames = functions(int(waits.paths.stack_id[first]), stacks, inner=False)
        sums = ns_by_frames.setdefault((*frames, f"{row.type}:{row.name}"), [0.0, 0.0])
        sums[0] += float(spin[g])
        sums[1] += float(sleep[g])
    return _merged(ns_by_frames)


def holding(waits: LockWaits, stacks: Mapping[int, list[str]]) -> list[Stack]:
    """Call paths of the holders when the waits began, by time waited; only waits with a known holder."""
    paths = waits.paths
    at = np.flatnonzero(paths.holder_state.is_in(TASK_STATES))
    groups = group([waits.row_of_path[at], paths.holder_stack_id[at], paths.holder_comm.codes[at]])
    spin, sleep = groups.sums(paths.spin_ns[at]), groups.sums(paths.sleep_ns[at])
    ns_by_frames: dict[tuple[str, ...], list[float]] = {}
    for g, first in enumerate(at[groups.first].tolist()):
        row = waits.rows[waits.row_of_path[first]]
        comm = paths.holder_comm.labels[paths.holder_comm.codes[first]] or "?"
        frames = functions(int(paths.holder_stack_id[first]), stacks, inner=True)
        sums = ns_by_frames.setdefault((comm, *frames, f"{row.type}:{row.name}"), [0.0, 0.0])
        sums[0] += float(spin[g])
        sums[1] += float(sleep[g])
    return _merged(ns_by_frames)


def ran(samples: Samples, stacks: Mapping[int, list[str]]) -> list[Stack]:
    """Call paths of holders on a CPU while others waited for their lock: CPU time by samples, as spin_ns."""
    ns_by_frames: dict[tuple[str, ...], list[float]] = {}
    for hold in samples.holds:
        frames = functions(hold.stack_id, stacks, inner=True)
        ns_by_frames.setdefault((*frames, hold.name), [0.0, 0.0])[0] += hold.seen.ns
    return _merged(ns_by_frames)


def unseen(samples: Samples, stacks: Mapping[int, list[str]]) -> list[Stack]:
    """Spinning that no tracepoint shows: CPU time by samples, under a root of its own."""
    ns_by_frames: dict[tuple[str, ...], list[float]] = {}
    for spin in samples.spin_stacks:
        frames = functions(spin.stack_id, stacks, inner=True)
        ns_by_frames.setdefault((UNSEEN, *frames, f"{spin.type}:{spin.name}"), [0.0, 0.0])[0] += spin.ns
    return _merged(ns_by_frames)
