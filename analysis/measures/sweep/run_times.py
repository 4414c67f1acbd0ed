# SPDX-License-Identifier: BSD-2-Clause
"""Where a run's time went and what work it did, as figures of a sweep; group_times.py reads them.

A cause's seconds are a figure of kind TIME, by each basis that the run has; counts of its work are of kind
WORK. A cause that a run has not has no figure: its time is 0.
"""

from __future__ import annotations

from collections.abc import Iterable

from analysis.measures.compare.compared_run import Compared
from analysis.measures.compare.time_apart import times_of
from analysis.measures.sweep.figure import TIME, WORK, Figure
from analysis.rundir.run import clean

BY = "time by "  # and the basis, a colon, the key of the ledger's line, and its text
BYTES, CALLS, SYNCS, OPS = "work, bytes: ", "work, calls: ", "work, syncs", "work, operations: "
LETTERS = 100  # of a name


def figures_of(compared: Compared) -> Iterable[Figure]:
    """The figures of kinds TIME and WORK of one run; none of a failed run, and without times."""
    times = times_of(compared, compared)
    work = times.work
    if work.why_not or not times.lines:
        return
    lossy = bool(compared.run.lossy("sched") or compared.run.lossy("threads"))
    for basis, lines in times.lines.items():
        for key, seconds in lines.items():
            yield Figure(f"{BY}{basis}: {key}: {times.texts[key]}", "s", seconds, TIME, lossy=lossy)
    for op, moved in (work.bytes or {}).items():
        yield Figure(f"{BYTES}{op}", "B", float(moved), WORK, lossy=work.lossy)
    for name, count in work.calls.items():
        yield Figure(f"{CALLS}{clean(name, LETTERS)}", "", float(count), WORK, lossy=work.lossy)
    yield Figure(SYNCS, "", float(work.syncs), WORK, lossy=work.lossy)
    for name, count in work.ops.items():
        yield Figure(f"{OPS}{clean(name, LETTERS)}", "", float(count), WORK)
