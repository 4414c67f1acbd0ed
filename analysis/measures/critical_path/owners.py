# SPDX-License-Identifier: BSD-2-Clause
"""Whose each logged thread is, and its name; of a kworker also by what it worked on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.causes.roles import KERNEL, OTHER, ROLES, role_of
from analysis.measures.critical_path.intervals import Intervals
from analysis.measures.critical_path.stretches import NONE, Mask
from analysis.rundir.tested import TestedFilesystem
from analysis.tables.store import I64
from analysis.tables.switch import Switch
from analysis.tables.thread import Threads
from analysis.tables.thread_time import ThreadTime

KWORKER = "kworker"
LOOP = "loop"  # a loop device's thread, or the work queue that a kworker works on, has the device's name
IDLE = "idle"


@dataclass(frozen=True)
class Owners:
    """By index of the thread in Intervals.numbers."""

    role: list[str]  # of ROLES
    recorded: list[str]  # as the recorder told it
    name: list[str]
    start_ns: I64  # when it was first seen; 0: not known
    end_ns: I64  # 0: alive at the end, or not known
    tid: I64  # 0: not known
    serves_loop: Mask  # it has worked for a loop device, as kworkers do at times

    def at(self, tid: I64, t_ns: I64) -> I64:
        """Index of the thread that had a thread id at a time: the last one seen before; NONE: not known."""
        size = self.tid.size
        thread_id, t = np.concatenate((self.tid, tid)), np.concatenate((self.start_ns, t_ns))
        order = np.lexsort((t, thread_id))
        is_thread = order < size
        last = np.maximum.accumulate(np.where(is_thread, np.arange(order.size), -1))
        queries = np.flatnonzero(~is_thread & (last >= 0))
        found, query = order[last[queries]], order[queries]
        same = (thread_id[found] == thread_id[query]) & (thread_id[query] > 0)
        index = np.full(tid.size, NONE, dtype=np.int64)
        index[query[same] - size] = found[same]
        return index


def make_owners(
    intervals: Intervals,
    switch: Switch,
    threads: Threads | None,
    times: ThreadTime | None,
    tested: TestedFilesystem,
) -> Owners:
    """From the table thread; without it roles alone, from the table switch."""
    size = intervals.numbers.size
    row_of = {} if threads is None else {number: row for row, number in enumerate(threads.thread.tolist())}
    recorded = _recorded_roles(intervals, switch)
    by_work = _roles_by_work(times)
    role, name = [], []
    start, end, tid = (np.zeros(size, dtype=np.int64) for _ in range(3))
    for i, number in enumerate(intervals.numbers.tolist()):
        row = row_of.get(number)
        comm = ""
        if threads is not None and row is not None:
            recorded[i] = threads.role[row] or recorded[i]
            comm = threads.comm[row]
            start[i], end[i], tid[i] = threads.start_ns[row], threads.end_ns[row], threads.tid[row]
        role.append(_role(recorded[i], comm, by_work.get(number, ""), tested))
        name.append(comm or f"thread {number}")
    serves = np.array([one.startswith(LOOP) for one in name], dtype=np.bool_)
    if times is not None:
        of_loop = [code for code, label in enumerate(times.work_name.labels) if label.startswith(LOOP)]
        served = np.unique(times.thread[np.isin(times.work_name.codes, of_loop)])
        is_worker = [one.startswith(f"{KWORKER}/") for one in name]
        serves |= np.isin(intervals.numbers, served) & is_worker
    return Owners(role, recorded, name, start, end, tid, serves)


def _role(recorded: str, comm: str, by_work: str, tested: TestedFilesystem) -> str:
    found = role_of(recorded, comm, "", "", tested)
    return by_work if found == OTHER and by_work and comm.startswith(f"{KWORKER}/") else found


def _recorded_roles(intervals: Intervals, switch: Switch) -> list[str]:
    """The role of each thread at one of its switches."""
    codes = np.zeros(intervals.numbers.size, dtype=np.int64)
    labels = (*switch.prev_role.labels, *switch.next_role.labels)
    for numbers, role, offset in (
        (switch.prev, switch.prev_role, 0),
        (switch.next, switch.next_role, len(switch.prev_role.labels)),
    ):
        index = intervals.index(numbers)
        codes[index[index >= 0]] = role.codes[index >= 0].astype(np.int64) + offset
    return [labels[code] if labels else OTHER for code in codes.tolist()]


def _roles_by_work(times: ThreadTime | None) -> Mapping[int, str]:
    """The role with most of a thread's time, by thread number; without the time of no known role."""
    if times is None or not times.ns.size:
        return {}
    known = np.flatnonzero(~times.role.is_(OTHER))
    key = times.thread[known] * len(times.role.labels) + times.role.codes[known]
    keys, of_row = np.unique(key, return_inverse=True)
    sums = np.bincount(of_row, times.ns[known], keys.size)
    order = np.argsort(sums, kind="stable")  # of a thread, the role with most time is the last
    return {
        int(key) // len(times.role.labels): times.role.labels[int(key) % len(times.role.labels)]
        for key in keys[order]
    }


class WorkRoles:
    """The role of a thread while it executes a work item."""

    def __init__(self, owners: Owners, functions: Mapping[int, str], tested: TestedFilesystem) -> None:
        self._owners = owners
        self._functions = functions
        self._tested = tested

    def of(self, thread: int, work_id: int) -> tuple[str, str]:
        """Role and name; work_id 0: no work item."""
        role, name = self._owners.role[thread], self._owners.name[thread]
        recorded = self._owners.recorded[thread]
        if name.startswith(f"{KWORKER}/"):
            name = KWORKER
        function = self._functions.get(work_id, "") if work_id else ""
        if not function or recorded != KERNEL:
            return role, name
        found = role_of(KERNEL, "", function, "", self._tested)
        assert found in ROLES
        return (role if found == OTHER else found), f"{name} {function}"
