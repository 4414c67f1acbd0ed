# SPDX-License-Identifier: BSD-2-Clause
"""Time by phase: time, operations, throughput, metadata share and seeks, a row a phase name."""

from __future__ import annotations

from collections.abc import Callable

from analysis import units
from analysis.measures.app import other_programs, phases, unseen
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.owner_labels import disk_share
from analysis.sections.spec import TIME, SectionSpec
from analysis.tables.load import Tables

SHARED = "~"


def build_phases(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One row a phase name, and a line on other programs of the machine."""
    section = _phases(results)
    if (others := other_programs.measure_others(run)) is not None:
        section.notes.append(_others_text(run, results, others))
    return [section]


def _phases(results: Results) -> Section:
    section = Section()
    if results.phases is None:
        section.absent = "the workload marked no phases"
        return section
    rows = []
    for row in results.phases:
        share = (
            row.metadata_bytes / row.known_bytes
            if row.known_bytes and row.metadata_bytes is not None
            else None
        )
        rows.append(
            (
                row.name,
                str(row.times) if row.name != phases.OUTSIDE else "",
                units.seconds(row.elapsed_s),
                units.rate(row.rate(row.ops or None)),
                _mb_s(row.own_bytes or None, row.rate),
                _app_mb_s(row, bool(results.app.uncounted)),
                _mb_s(row.device_bytes, row.recorded_rate),
                units.percent(share),
                units.rate(row.recorded_rate(row.seeks)),
            )
        )
    heads = ("<phase", "n", "s", "ops/s", "workload MB/s", "app MB/s", "dev MB/s", "meta %", "seeks/s")
    section.tables.append(Table(heads, rows))
    if results.shared_owners is not None:
        own = [
            (
                row.name,
                _mb_s(row.own_device_bytes, row.recorded_rate),
                _mb_s(row.device_bytes, row.recorded_rate),
                units.rate(row.recorded_rate(row.own_seeks)),
                units.rate(row.recorded_rate(row.seeks)),
            )
            for row in results.phases
        ]
        own_heads = ("dev MB/s,\nown", "&\nall", "seeks/s,\nown", "&\nall")
        section.tables.append(Table(("<phase", *own_heads), own))
    section.notes += [
        f"{row.name}: workload MB/s, mean of the phases' rates: {units.mean(row.own_mb_s)}"
        for row in results.phases
        if row.own_mb_s is not None and row.own_mb_s.n > 1
    ]
    if any(not row.app_is_exact and row.recorded_s >= phases.SHORTEST_RATE_S for row in results.phases):
        section.notes.append(
            f"{SHARED}: the recorder learned of the phase's edges too late; calls are assigned to the phase"
            f" by time (no app MB/s for a phase below {phases.SHORTEST_SHARED_S:g} s)"
        )
    if results.app.uncounted:
        section.notes.append(f"app MB/s: lower bounds ({unseen.AT_LEAST}), see throughput")
    section.notes += [
        f"{row.name}: app, dev, meta and seeks cover the {units.seconds(row.recorded_s)} s that were recorded"
        for row in results.phases
        if row.elapsed_s - row.recorded_s >= phases.SHORTEST_RATE_S
    ]
    section.definition = (
        "rates: sums over the n phases / their total time; no rate below"
        f" {phases.SHORTEST_RATE_S * 1e3:g} ms. workload MB/s: file data that the workload itself counted."
        " mean of the phases' rates: a short phase weighs as much as a long one; +- 95 % confidence"
        " interval (t, s/sqrt n). app, dev, meta: see throughput."
    )
    return section


def _mb_s(moved: float | None, rate: Callable[[float | None], float | None]) -> str:
    return units.rate(rate(None if moved is None else moved / 1e6))


def _app_mb_s(row: phases.PhaseRow, is_bound: bool) -> str:
    rate = row.app_rate()
    shown = ("" if rate is None or row.app_is_exact else SHARED) + units.rate(
        None if rate is None else rate / 1e6
    )
    return unseen.at_least(shown, is_bound)


def _others_text(run: Run, results: Results, others: other_programs.Others) -> str:
    """CPU time of other programs and of kernel threads, and the disk share of other programs, in one line."""
    all_ns = results.window.work_s * 1e9 * (run.cpus or 0)
    share = f" ({units.percent(others.cpu_ns / all_ns)} % of all CPUs)" if all_ns > 0 else ""
    names = "".join(f", {name} {units.ns(cpu_ns)}" for name, cpu_ns in others.programs)
    text = f"CPU time of other programs: {units.ns(others.cpu_ns)}{share}{names};"
    text += f" of kernel threads, for any program: {units.ns(others.kernel_threads_cpu_ns)}"
    if results.owners is None or not sum(owned.requests for owned in results.owners.owned):
        return text
    return f"{text}; {disk_share(results.owners)}"


SECTIONS = (
    SectionSpec(
        "phases",
        "Time by phase",
        200,
        build_phases,
        essential=True,
        collectors=("block", "calls"),
        explains=(TIME,),
    ),
)
