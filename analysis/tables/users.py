# SPDX-License-Identifier: BSD-2-Clause
"""The programs that use a watched device: the recorder takes each process of the machine for the workload.

A process uses it if one of its threads was in a call on the device's file systems. Where none was, those that
sent requests themselves do: they use the device without a file system. The threads of all others, and of
Seekmeter's own processes that make screens, get another role in the tables thread and thread_time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from analysis.causes.roles import OTHER, ROLES, WORKLOAD, role_of
from analysis.rundir.run import Run
from analysis.rundir.tested import tested_filesystem
from analysis.tables.store import I64, Categorical, Stored
from analysis.tables.thread import Threads
from analysis.tables.thread_time import ThreadTime

WATCH = "watch"  # the name of the workload
ON_TARGET = "target"
Mask = npt.NDArray[np.bool_]


def is_watched(run: Run) -> bool:
    """Whether the run is of make watch."""
    return run.text("workload", "name") == WATCH


def only_users(
    run: Run, threads: Threads, times: ThreadTime, requests: Stored | None
) -> tuple[Threads, ThreadTime]:
    """The tables of a watched run, in which only threads of its users are the workload's.

    requests: the table block; None: there is none.
    """
    own = _own_processes(threads, run.int_("live", "pid"))
    calling = np.unique(times.thread[times.call_target.is_(ON_TARGET)])
    using = set(threads.tgid[np.isin(threads.thread, calling)].tolist()) - own - {0}
    if not using and requests is not None:
        using = _submitters(requests) - own - {0}
    is_user = np.isin(threads.tgid, np.array(sorted(using), dtype=np.int64))
    tested = tested_filesystem(run)
    role = [
        role if role != WORKLOAD or uses else role_of(OTHER, comm, "", "", tested)
        for role, comm, uses in zip(threads.role, threads.comm, is_user.tolist(), strict=True)
    ]
    found = replace(threads, role=role)
    return found, _relabelled(times, found)


def _own_processes(threads: Threads, driver: int | None) -> set[int]:
    """The process that starts one window after the other, and what it started."""
    if not driver:
        return set()
    children: dict[int, list[int]] = {}
    for tgid, parent in zip(threads.tgid.tolist(), threads.parent_tgid.tolist(), strict=True):
        children.setdefault(parent, []).append(tgid)
    own, reached = {driver}, [driver]
    while reached:
        new = set(children.get(reached.pop(), ())) - own
        own |= new
        reached += new
    return own


def _submitters(requests: Stored) -> set[int]:
    """Processes that sent requests."""
    mine = requests.categorical("submitter").is_in((WORKLOAD, OTHER))
    return set(np.unique(requests.column("tgid")[mine]).tolist())


def _relabelled(times: ThreadTime, threads: Threads) -> ThreadTime:
    """The workload's rows with the roles that their threads have."""
    labels = (*times.role.labels, *(role for role in ROLES if role not in times.role.labels))
    code_of = {
        number: labels.index(role)
        for number, role in zip(threads.thread.tolist(), threads.role, strict=True)
        if role in labels
    }
    codes: I64 = times.role.codes.astype(np.int64)
    rows = np.flatnonzero(times.role.is_(WORKLOAD))
    numbers, of_row = np.unique(times.thread[rows], return_inverse=True)
    new = np.array([code_of.get(number, labels.index(OTHER)) for number in numbers.tolist()], dtype=np.int64)
    codes[rows] = new[of_row]
    return replace(times, role=Categorical(codes.astype(np.int16), labels))


def in_calls_ns(times: ThreadTime | None) -> dict[int, int]:
    """How long each thread of the workload was in calls on the file system, by its number."""
    if times is None:
        return {}
    rows = np.flatnonzero(times.call_target.is_(ON_TARGET) & times.role.is_(WORKLOAD))
    numbers, of_row = np.unique(times.thread[rows], return_inverse=True)
    sums = np.bincount(of_row, times.ns[rows], numbers.size)
    return {number: round(ns) for number, ns in zip(numbers.tolist(), sums.tolist(), strict=True)}
