# SPDX-License-Identifier: BSD-2-Clause
"""What the workload got, by its own count where it has one, and what the disk did for it."""

from __future__ import annotations

from collections.abc import Collection

from analysis import units
from analysis.findings.rule import Case
from analysis.measures.app import phases
from analysis.measures.app.calls import CallRow
from analysis.measures.app.phases import PhaseRow
from analysis.measures.block.throughput import OPS
from analysis.measures.device.utilization import Utilization
from analysis.measures.disk.states import WORDS, State
from analysis.measures.sweep.workload_metrics import workload_metrics
from analysis.tables.users import ON_TARGET, is_watched

MOST_SHOWN = 3
LEAST_CALLS = 0.1  # of the calls that the workload makes most
LEAST_MOVED = 0.001  # of the other direction's bytes
LEAST_STATE = 0.005  # of the time: what an emulated disk did for less is not named
LEAST_PHASE = 0.05  # of the workload's time: a shorter phase is not named


def got(case: Case) -> str:
    """Rates of the workload: its own bytes by phase, else its own metrics, else what its calls moved."""
    rows = [row for row in case.results.phases or () if row.name != phases.OUTSIDE]
    least = LEAST_PHASE * case.ledger.wall_s
    rates = [_rate(row) for row in sorted(rows, key=lambda row: -row.elapsed_s) if row.elapsed_s >= least]
    shown = [rate for rate in rates if rate]
    if not shown:
        figures = workload_metrics(case.run, case.tables.figures, case.results.phases or ())
        shown = [f"{one.measure} {units.figures(one.value)} {one.unit}".strip() for one in figures]
    return ", ".join(shown[:MOST_SHOWN] or [_moved(case)])


def _rate(row: PhaseRow) -> str:
    """ "160 +-38 MB/s initial create (n = 20)", "30,979 ops/s order"."""
    if row.own_mb_s is not None and row.own_bytes:
        several = f" (n = {row.own_mb_s.n})" if row.own_mb_s.n > 1 else ""
        mean = units.mean(row.own_mb_s).removesuffix(" (single)")
        return f"{mean} MB/s {row.name}{several}"
    per_s = row.rate(row.ops or None)
    return f"{units.rate(per_s)} ops/s {row.name}" if per_s else ""


def _moved(case: Case) -> str:
    """What the workload's calls read and wrote."""
    app, wall_s = case.results.app, case.results.window.work_s
    if app.bytes is None or not wall_s:
        return f"not known (file-system calls: {app.absent or 'not recorded'})"
    least = ">= " if app.uncounted else ""
    moved = [
        f"{least}{units.bytes_(app.bytes[op])} {'read' if op == 'read' else 'written'}"
        f" ({units.rate(app.bytes[op] / 1e6 / wall_s)} MB/s)"
        for op in OPS
        if app.bytes.get(op)
    ]
    return ", ".join(moved or _calls(case)) or "no calls on the file system"


def own_calls(case: Case) -> list[CallRow]:
    """The workload's calls; of a watched system, where calls of all programs are recorded, those on it."""
    rows = case.results.app.calls or []
    return [row for row in rows if row.target == ON_TARGET] if is_watched(case.run) else rows


def _calls(case: Case) -> list[str]:
    """What the workload called most, where it moves no bytes."""
    wall_s = case.results.window.work_s
    count: dict[str, int] = {}
    for row in own_calls(case):
        count[row.call] = count.get(row.call, 0) + row.count
    most = sorted(count.items(), key=lambda item: -item[1])[:MOST_SHOWN]
    often = [(name, n) for name, n in most if n >= LEAST_CALLS * most[0][1]]
    return [f"{units.rate(n / wall_s)} {name}() a second" for name, n in often]


def disk(case: Case) -> str:
    """Bytes written and read by the disk, bytes for each of the workload's, and how long it was idle."""
    results = case.results
    if results.block is None:
        return f"not known: {case.run.absent('block')}"
    moved = {op: sum(row.bytes for row in results.device_totals if row.op == op) for op in OPS}
    texts = []
    for op in sorted(OPS, key=lambda op: -moved[op]):
        if moved[op] > LEAST_MOVED * max(moved.values()):
            text = f"{units.bytes_(moved[op])} {'read' if op == 'read' else 'written'}"
            texts.append(text + _for_each(case, op, moved[op]))
    texts = texts or ["no bytes read or written"]
    busiest = max(
        (one.active.total_ns / one.span_ns for one in _utilization(case) if one.span_ns), default=None
    )
    if divided := _divided(case):
        texts.append(divided)
    elif busiest is not None:
        texts.append(f"{100 * (1 - busiest):.0f} % idle")
    return "; ".join(texts)


def _divided(case: Case) -> str:
    """How the time of the busiest emulated disk divides: "seeking 71 %, idle 9 %"; empty: there is none."""
    disks = case.results.disks.disks if case.results.disks is not None else []
    disk = max(disks, key=lambda one: one.busy_ns, default=None)
    if disk is None:
        return ""
    shares = [(WORDS[state], disk.share(state)) for state in State]
    shown = sorted((one for one in shares if one[1] >= LEAST_STATE), key=lambda one: -one[1])
    name = f"{disk.label} " if len(disks) > 1 else ""
    return name + ", ".join(f"{word} {100 * share:.0f} %" for word, share in shown)


def _utilization(case: Case) -> Collection[Utilization]:
    return case.results.device.utilization.values()


def _for_each(case: Case, op: str, moved: int) -> str:
    """Bytes at the disk for each byte of the workload's calls; not stated where its bytes are only bounds."""
    app = case.results.app
    own = app.bytes.get(op) if app.bytes else None
    if op != "write" or not own or app.uncounted or case.results.shared_owners is not None:
        return ""
    return f", {units.figures(moved / own)} bytes for each the workload wrote"
