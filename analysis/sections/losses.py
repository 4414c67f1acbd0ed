# SPDX-License-Identifier: BSD-2-Clause
"""Events that each collector saw, recorded and lost, and the CPU time that tracing took."""

from __future__ import annotations

from analysis import units
from analysis.measures.common import tracing_cost
from analysis.measures.common.statistics import Mean
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.recorded_time import recorded_time
from analysis.rundir.run import Run
from analysis.sections.marks import MARKING
from analysis.sections.queue_depth import bounded_ends
from analysis.sections.spec import SectionSpec
from analysis.tables.left_out import LeftOut
from analysis.tables.load import TABLES, Tables

NOTHING_LOST = "nothing lost"


def build_losses(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One row a collector: events, losses and CPU time."""
    section = Section()
    rows = []
    cost = tracing_cost.measure_cost(run, results.recorded_s)
    for name, loss in run.losses.items():
        rows.append(
            (
                name,
                loss.state,
                units.count(loss.seen),
                units.count(loss.recorded),
                units.count(loss.lost_total),
            )
        )
        if name not in run.asked:  # else "Warnings and gaps" says it
            section.notes.append(f"{name} is off: {run.off(name)}")
        section.notes += [f"{name} lost {n:,}: {why}" for why, n in loss.lost.items() if n]
        section.notes += [f"{name}: {what}: {n:,}" for what, n in loss.notes.items() if n]
    if rows:
        section.tables.append(Table(("<collector", "<state", "seen", "recorded", "lost"), rows))
        if any(row.bpf is not None or row.user is not None for row in cost.rows):
            section.tables.append(_cost_table(cost))
    else:
        section.absent = (
            "losses.json is missing or empty" if run.asked else "no collector was asked for (COLLECT=none)"
        )
    if (
        rows
        and not any(loss.lost_total for loss in run.losses.values())
        and not any(map(run.off, run.losses))
    ):
        section.quiet = NOTHING_LOST
    section.notes += left_out_words(run, tables)
    block = run.losses.get("block")
    if block and block.recorded is not None and "block" in tables.rows:
        written = [name for name in ("block", "volume") if name in tables.rows]
        kept = sum(tables.rows[name] for name in written)
        left_out = [tables.left_out.get(name, LeftOut()) for name in written]
        if block.recorded != kept + sum(rows.before + rows.after for rows in left_out):
            section.notes.append(
                f"block: the recorder wrote {block.recorded:,} rows, the table holds {kept:,}"
            )
    section.notes += _cost_notes(run, cost)
    if results.block is not None and results.block.latency.untimed:
        section.notes.append(
            f"block: {results.block.latency.untimed:,} rows have missing or disordered times and are in"
            " no latency (such rows come in batches: tails may be too short)"
        )
    section.notes += bounded_ends(results)
    counter = (
        " The device's own counter (throughput): its increase from first to last sample, compared with"
        " requests that completed between these two."
        if any(own.traced is not None and own.increase for own in results.device.counters)
        else ""
    )
    section.definition = (
        f"{tracing_cost.DEFINITION}{counter} Only a run without tracing shows how much tracing slows"
        f" the workload. {MARKING}"
    )
    return [section]


def _cost_table(cost: tracing_cost.TracingCost) -> Table:
    """CPU time of each collector's BPF programs and of its process, in percent."""

    def percents(bpf: Mean | None) -> str:
        if bpf is None:
            return "-"
        return units.mean(
            Mean(100 * bpf.value, None if bpf.half_width is None else 100 * bpf.half_width, bpf.n)
        )

    rows = [
        (row.name, percents(row.bpf), units.ns(row.run_ns), units.percent(row.user), units.percent(row.total))
        for row in cost.rows
    ]
    return Table(("<CPU time of", "BPF CPU %", "mean run time", "user CPU %", "total %"), rows)


def _cost_notes(run: Run, cost: tracing_cost.TracingCost) -> list[str]:
    """How much of the recording was timed, and costs that the table lacks."""
    notes = []
    if cost.windows:
        notes.append(
            f"BPF programs were timed in {cost.windows:,} windows, {units.seconds(cost.windows_s)} s together"
        )
    elif any(loss.bpf_programs for loss in run.losses.values() if loss.is_on):
        why = (
            "its CPUs are emulated"
            if run.emulated
            else "an older recorder, a kernel before 5.8, or too short a recording"
        )
        notes.append(f"CPU time of BPF programs is not known: {why}")
    others = [name for name, loss in run.losses.items() if loss.is_on and loss.bpf_programs is None]
    if others and not run.imported:
        notes.append(f"{', '.join(others)}: its cost in the kernel is not measured")
    if run.recorder_start_cpu_ns is not None:
        notes.append(f"the recorder used {units.ns(run.recorder_start_cpu_ns)} of CPU before it recorded")
    return notes


def left_out_words(run: Run, tables: Tables) -> list[str]:
    """Rows outside of the recorded time that the tables leave out, and bins that they cannot split."""
    notes = [
        f"{TABLES[table].collector}: {n:,} row{'s' if n > 1 else ''} of table {table} left out"
        f" (not lost): {why}"
        for table, left_out in tables.left_out.items()
        for n, why in left_out.reasons(TABLES[table].time)
    ]
    binned = {"calls": tables.call, "locks": tables.lock_wait, "holds": tables.hold}
    firsts = {name: int(t.bin_ns.min()) for name, t in binned.items() if t is not None and t.bin_ns.size}
    start_ns = recorded_time(run).start_ns or 0
    early = [name for name, first_ns in firsts.items() if first_ns < start_ns]
    if early and tables.left_out:
        before_ns = start_ns - min(firsts[name] for name in early)
        notes.append(
            f"{', '.join(early)}: the time bin in which the recording began counts whole, with"
            f" {units.ns(before_ns)} before it"
        )
    return notes


SECTIONS = (SectionSpec("losses", "Lost events and overhead", 3100, build_losses),)
