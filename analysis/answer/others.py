# SPDX-License-Identifier: BSD-2-Clause
"""What other programs did on the machine meanwhile: CPU time, and requests on the same disk."""

from __future__ import annotations

from analysis import units
from analysis.causes.roles import OTHER
from analysis.findings.rule import Case
from analysis.measures.app.other_programs import measure_others
from analysis.measures.common.tracing_cost import RECORDER, measure_cost
from analysis.measures.locks.lock_waiters import OTHERS
from analysis.rundir.run import clean
from analysis.tables.users import is_watched

LEAST_CPU = 0.01  # of all CPUs
LEAST_BYTES = 0.001  # of the disk's
PROGRAMS = 1


def _beside_watched(case: Case) -> str:
    """CPU time of programs that do not use a watched device, and of recording."""
    run, threads = case.run, case.results.threads
    if threads is None or not run.cpus:
        return ""
    capacity_s = case.results.recorded_s * run.cpus
    rows = [row for row in threads.rows if row.role == OTHER]
    used_s = sum(row.cpu_ns for row in rows) / 1e9
    most = max(rows, key=lambda row: row.cpu_ns, default=None)
    named = f" ({most.name})" if most is not None and most.cpu_ns >= LEAST_CPU * capacity_s * 1e9 else ""
    used = f"other programs{named}: {units.seconds(used_s)} of {units.seconds(capacity_s)}"
    cost = measure_cost(run, case.results.recorded_s)
    total = next((row.total for row in cost.rows if row.name == RECORDER), None)
    recording = "" if total is None else f"recording: {units.seconds(total * capacity_s)} CPU s; "
    return f"{recording}{used} CPU s"


def others(case: Case) -> str:
    """A sentence; empty where nothing was recorded."""
    run, results = case.run, case.results
    if is_watched(run):
        return _beside_watched(case)
    found = measure_others(run)
    if found is None:
        return ""
    capacity_ns = results.window.work_s * 1e9 * (run.cpus or 0)
    share = found.cpu_ns / capacity_ns if capacity_ns else 0.0
    programs = ", ".join(name for name, _ in found.programs[:PROGRAMS])
    if share < LEAST_CPU:
        text = "used under 1 % of the CPU time"
    else:
        named = f" ({programs})" if programs else ""
        used, capacity = units.seconds(found.cpu_ns / 1e9), units.seconds(capacity_ns / 1e9)
        text = f"used {used} of {capacity} CPU s{named}"
    owners = results.owners
    of_disk = owners.share(OTHERS, "bytes") if owners is not None else 0.0
    if owners is not None and of_disk >= LEAST_BYTES:
        who = ", ".join(clean(name, 30) for name, _ in owners.of(OTHERS).names[:PROGRAMS])
        text += f"; {units.percent(of_disk)} % of the disk's bytes{f' ({who})' if who else ''}"
    return text
