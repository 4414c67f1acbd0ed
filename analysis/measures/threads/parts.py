# SPDX-License-Identifier: BSD-2-Clause
"""Time of threads by what it went to: a state on a CPU, waiting for one, or a cause for sleeping.

One part is all time with the same role and the same kind: user, kernel, irq, spin, running (on a CPU without
samples), ready:ROLE (runnable while ROLE ran), or a cause of analysis/causes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.causes.rules import NO_STACK, UNKNOWN, rules
from analysis.measures.locks.waits_by_stack import group
from analysis.tables.lock import Lock
from analysis.tables.store import Categorical
from analysis.tables.thread_rows import ASLEEP, RUNNABLE, RUNNING, SPLIT
from analysis.tables.thread_time import ThreadTime

ON_CPU = (*SPLIT, RUNNING)
READY = "ready:"
VOLUNTARY = ("idle", "child", "sleep", "ipc", "stopped")  # causes that no disk and no kernel is at fault for
NOT_KNOWN = (UNKNOWN, NO_STACK)


@dataclass(frozen=True)
class Part:
    """The time of one role that went to one kind.

    place: function that told a cause, or the lock's class where it is known; "" for others.
    """

    role: str
    kind: str
    place: str
    ns: int
    count: int
    max_ns: int

    @property
    def is_on_cpu(self) -> bool:
        """Whether the threads ran."""
        return self.kind in ON_CPU

    @property
    def is_ready(self) -> bool:
        """Whether the threads waited for a CPU."""
        return self.kind.startswith(READY)

    @property
    def is_blocked(self) -> bool:
        """Whether the threads slept, and not because they had nothing to do."""
        return not self.is_on_cpu and not self.is_ready and self.kind not in VOLUNTARY


def kinds_of(times: ThreadTime) -> Categorical:
    """The kind of each row."""
    labels: dict[str, int] = {}
    codes = np.zeros(times.ns.size, dtype=np.int32)
    states = times.state
    asleep = states.is_in((*ASLEEP, "other"))
    for rows, column, prefix in (
        (states.is_(RUNNABLE), times.by, READY),
        (asleep, times.cause, ""),
        (~states.is_(RUNNABLE) & ~asleep, states, ""),
    ):
        lut = np.array([labels.setdefault(prefix + label, len(labels)) for label in column.labels] or [0])
        codes[rows] = lut[column.codes[rows]]
    return Categorical(codes, tuple(labels))


def places_of(times: ThreadTime, locks: Mapping[int, Lock]) -> Categorical:
    """The place of each row; the class of the lock that a thread waits for, where that is known."""
    names = {number: lock.name for number, lock in locks.items() if lock.name}
    rows = np.flatnonzero(times.lock_id) if names else np.zeros(0, dtype=np.int64)
    labels = {label: code for code, label in enumerate(times.place.labels)}
    codes = times.place.codes.astype(np.int32)
    different, of_row = np.unique(times.lock_id[rows], return_inverse=True)
    known = [names.get(number) for number in different.tolist()]
    code_of = np.array([labels.setdefault(name, len(labels)) if name else -1 for name in known] or [-1])
    found = code_of[of_row]
    codes[rows] = np.where(found >= 0, found, codes[rows])
    return Categorical(codes, tuple(labels))


def sum_parts(times: ThreadTime, kinds: Categorical, places: Categorical | None = None) -> list[Part]:
    """All time by role and kind, and by place; most time first."""
    columns = [times.role.codes, kinds.codes]
    if places is not None:
        columns.append(places.codes)
    groups = group(columns)
    ns, counts = groups.sums(times.ns), groups.sums(times.count)
    longest = np.zeros(groups.n, dtype=np.int64)
    np.maximum.at(longest, groups.of_row, times.max_ns)
    parts = [
        Part(
            role=times.role.labels[times.role.codes[first]],
            kind=kinds.labels[kinds.codes[first]],
            place=places.labels[places.codes[first]] if places is not None else "",
            ns=round(ns[g]),
            count=round(counts[g]),
            max_ns=int(longest[g]),
        )
        for g, first in enumerate(groups.first.tolist())
    ]
    return sorted((part for part in parts if part.ns > 0), key=lambda part: (-part.ns, part.role, part.kind))


def text_of(kind: str) -> str:
    """A kind as reports write it."""
    if kind.startswith(READY):
        return READY_TEXTS.get(kind.removeprefix(READY), READY_TEXTS["unknown"])
    if kind in CPU_TEXTS:
        return CPU_TEXTS[kind]
    cause = rules().causes.get(kind)
    return cause.text if cause else kind


CPU_TEXTS: Mapping[str, str] = {
    "user": "on a CPU, own code",
    "kernel": "on a CPU, kernel",
    "irq": "on a CPU, softirqs",
    "spin": "on a CPU, spinning",
    RUNNING: "on a CPU",
}
READY_TEXTS: Mapping[str, str] = {
    "workload": "ready: workload ran",
    "kernel": "ready: kernel ran",
    "filesystem": "ready: file system ran",
    "disk": "ready: the disk ran",
    "recorder": "ready: recorder ran",
    "other": "ready: others ran",
    "idle": "ready: CPU woke up",
    "unknown": "ready: who ran not seen",
}
