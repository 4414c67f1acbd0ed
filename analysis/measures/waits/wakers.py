# SPDX-License-Identifier: BSD-2-Clause
"""Who ended some sleeps of the workload: threads by name, by the path's own wake-ups."""

from __future__ import annotations

import numpy as np

from analysis.causes.roles import OTHER
from analysis.measures.critical_path.results import NoPath, PathResults, PathRows
from analysis.measures.critical_path.stretches import I32
from analysis.measures.waits.sleeps import Sleeps
from analysis.measures.waits.turn import woken_by
from analysis.tables import wake
from analysis.tables.load import Tables
from analysis.tables.store import I64
from analysis.tables.wake import Wake

NOT_LOGGED = "a thread that is not logged"


def wakers_of(path: PathResults | NoPath, sleeps: Sleeps, tables: Tables) -> list[tuple[str, int]]:
    """Threads that woke the sleeper, with the number of sleeps, most first; none without a path."""
    wakes = tables.get(wake.TABLE)
    if not isinstance(path, PathResults) or path.rows is None or wakes is None or not sleeps.is_timed:
        return []
    _, first = np.unique(sleeps.sleep, return_index=True)
    return wakers_by(path.rows, wakes, sleeps.wake[first])


def wakers_by(rows: PathRows, wakes: Wake, row: I32 | I64) -> list[tuple[str, int]]:
    """Threads by name that did these wake-ups (rows of the table), with their number; NONE is left out."""
    numbers, names = rows.intervals.numbers, rows.owners.name
    found: dict[str, int] = {}
    for waker in wakes.waker[row[row >= 0]].tolist():
        at = int(np.searchsorted(numbers, waker))
        known = at < numbers.size and int(numbers[at]) == waker
        name = names[at] if known else NOT_LOGGED
        found[name] = found.get(name, 0) + 1
    return sorted(found.items(), key=lambda one: (-one[1], one[0]))


def other_wakers(path: PathResults | NoPath, sleeps: Sleeps, tables: Tables) -> list[tuple[str, int]]:
    """Threads of other programs that woke the sleeper, with the time of these sleeps, most first."""
    if not isinstance(path, PathResults) or path.rows is None or not sleeps.is_timed:
        return []
    wakers = woken_by(sleeps.wake, path.rows, tables.get(wake.TABLE), OTHER)
    found: dict[str, int] = {}
    for index in np.unique(wakers[wakers >= 0]).tolist():
        name = path.rows.owners.name[index]
        found[name] = found.get(name, 0) + int(sleeps.ns[wakers == index].sum())
    return sorted(found.items(), key=lambda one: (-one[1], one[0]))
