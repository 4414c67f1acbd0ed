# SPDX-License-Identifier: BSD-2-Clause
"""Lock holders: the task that held the lock when a wait began, its state and stack; chains of holders.

Known for mutexes and rwsems, which remember their holder. Shares are weighted by the waiting time: the share
of a holder's state is the time of waits that began with the holder in that state over all waiting time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64
from analysis.measures.locks import lock_names
from analysis.measures.locks.lock_waits import LockWaits
from analysis.measures.locks.waits_by_stack import group

STATES = (
    "running",
    "runnable",
    "io",
    "lock",
    "sleeping",
    "readers",
    "nobody",
    "unknown",
    "not_sampled",
)
TASK_STATES = STATES[:5]  # a task was found
STATE_NAMES = {
    "running": "on a CPU",
    "runnable": "waiting for a CPU",
    "io": "waiting for I/O",
    "lock": "waiting for another lock",
    "sleeping": "asleep",
    "readers": "held by readers",
    "nobody": "nobody: just released",
    "unknown": "not known",
    "not_sampled": "not sampled",
}
SHORT = {
    "running": "run",
    "runnable": "runq",
    "sleeping": "sleep",
    "readers": "rdrs",
    "not_sampled": "n/s",
    "unknown": "unk.",
}  # as headings
DEFINITION = (
    "state of the holder when the wait began, weighted by the time waited. run: on a CPU; runq: waiting for a"
    " CPU; io: waiting for I/O; lock: waiting for another lock; sleep: asleep for another reason; rdrs: held"
    " by readers, whose tasks the lock does not store; nobody: just released or handed over; unk. (unknown):"
    " this kind of lock does not store its holder; n/s: not sampled, too many waits a second to record each."
)
Label = str


@dataclass(frozen=True)
class Holder:
    """Waits on a class of locks by who held it."""

    row: int  # of LockWaits.rows
    comm: str
    state: str
    path: Label
    waits: float
    ns: float


@dataclass(frozen=True)
class Chain:
    """Waits whose holder waited for a lock in turn. The root is the task at the end."""

    row: int
    second: str  # the lock the holder waited for
    last: str  # the lock that the root holds
    length: int
    root_state: str
    root_path: Label
    ns: float


@dataclass(frozen=True)
class Edge:
    """A call path that waited, the class of locks, and the call path of the task that held it."""

    waiter: Label
    row: int
    comm: str
    state: str
    wants: str  # the lock the holder waited for in turn; "": none
    holder: Label
    waits: float
    ns: float


@dataclass(frozen=True)
class Holders:
    """Waits by the holder's state, holder, chain and pair of call paths; lists: longest wait first."""

    state_ns: F64  # rows of LockWaits x STATES
    holders: list[Holder]
    chains: list[Chain]
    edges: list[Edge]

    @property
    def known_ns(self) -> float:
        """Time waited in waits whose holder's state is known."""
        return float(self.state_ns[:, : STATES.index("unknown")].sum())


class _Labels:
    """Short labels of call paths by stack_id, each built once."""

    def __init__(self, stacks: Mapping[int, list[str]]) -> None:
        self.stacks = stacks
        self.made: dict[int, str] = {}

    def of(self, stack_id: int) -> str:
        if stack_id not in self.made:
            self.made[stack_id] = lock_names.stack_label(stack_id, self.stacks)
        return self.made[stack_id]


def measure_holders(lock_waits: LockWaits, stacks: Mapping[int, list[str]]) -> Holders:
    """Sum the waits by holder, by chain, and by pair of waiter's and holder's call path."""
    paths, n = lock_waits.paths, len(lock_waits.rows)
    total = paths.total_ns
    states = np.zeros((max(n, 1), len(STATES)))
    column = np.array(
        [STATES.index(s) if s in STATES else STATES.index("unknown") for s in paths.holder_state.labels]
    )
    if paths.rows:
        np.add.at(states, (lock_waits.row_of_path, column[paths.holder_state.codes]), total)
    labels = _Labels(stacks)
    at = np.flatnonzero(paths.holder_state.is_in(TASK_STATES) | paths.holder_state.is_("readers"))
    holders: dict[tuple[int, str, str, str], list[float]] = {}
    edges: dict[tuple[str, int, str, str, str, str], list[float]] = {}
    if at.size:
        groups = group(
            [
                lock_waits.row_of_path[at],
                paths.stack_id[at],
                paths.holder_stack_id[at],
                paths.holder_comm.codes[at],
                paths.holder_state.codes[at],
                paths.holder_lock[at],
            ]
        )
        waits, time = groups.sums(paths.count[at]), groups.sums(total[at])
        for g, first in enumerate(at[groups.first].tolist()):
            row = int(lock_waits.row_of_path[first])
            comm = paths.holder_comm.labels[paths.holder_comm.codes[first]]
            state = paths.holder_state.labels[paths.holder_state.codes[first]]
            path = labels.of(int(paths.holder_stack_id[first])) if state in TASK_STATES else ""
            wanted = int(paths.holder_lock[first])
            wants = lock_waits.lock_label(wanted) if wanted else ""
            waiter = labels.of(int(paths.stack_id[first]))
            for sums in (
                edges.setdefault((waiter, row, comm, state, wants, path), [0.0, 0.0]),
                *([holders.setdefault((row, comm, state, path), [0.0, 0.0])] if state in TASK_STATES else []),
            ):
                sums[0] += waits[g]
                sums[1] += time[g]
    return Holders(
        state_ns=states[:n],
        holders=sorted(
            (Holder(*key, *sums) for key, sums in holders.items()),
            key=lambda h: (-h.ns, h.row, h.comm, h.path),
        ),
        chains=_chains(lock_waits, labels),
        edges=sorted(
            (Edge(*key, *sums) for key, sums in edges.items()), key=lambda e: (-e.ns, e.row, e.waiter)
        ),
    )


def _chains(lock_waits: LockWaits, labels: _Labels) -> list[Chain]:
    paths = lock_waits.paths
    at = np.flatnonzero(paths.chain >= 2)
    if not at.size:
        return []
    groups = group(
        [
            lock_waits.row_of_path[at],
            paths.holder_lock[at],
            paths.root_lock[at],
            paths.chain[at],
            paths.root_state.codes[at],
            paths.root_stack_id[at],
        ]
    )
    time = groups.sums(paths.total_ns[at])
    merged: dict[tuple[int, str, str, int, str, str], float] = {}
    for g, first in enumerate(at[groups.first].tolist()):
        second, last = int(paths.holder_lock[first]), int(paths.root_lock[first])
        key = (
            int(lock_waits.row_of_path[first]),
            lock_waits.lock_label(second) if second else "?",
            lock_waits.lock_label(last) if last else "?",
            int(paths.chain[first]),
            paths.root_state.labels[paths.root_state.codes[first]],
            labels.of(int(paths.root_stack_id[first])),
        )
        merged[key] = merged.get(key, 0.0) + float(time[g])
    return sorted((Chain(*key, ns) for key, ns in merged.items()), key=lambda c: (-c.ns, c.row))
