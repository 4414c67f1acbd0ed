# SPDX-License-Identifier: BSD-2-Clause
"""CPU profile: perf's samples by phase and by function."""

from __future__ import annotations

from analysis import units
from analysis.measures.cpu import profile
from analysis.measures.cpu.profile import FunctionRow
from analysis.measures.locks.lock_samples import Estimate
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.spec import CPU, SectionSpec
from analysis.tables.load import Tables

TOP = 12
TOP_OF_PHASE = 5
MOST_PHASES = 16


def _share(part: int, of: int) -> str:
    return units.percent(part / of if of else None)


def _interval(estimate: Estimate, of_ns: float) -> str:
    if not of_ns:
        return "-"
    return f"({units.percent(estimate.low_ns / of_ns)}-{units.percent(min(estimate.high_ns / of_ns, 1.0))})"


def build_cpu_profile(run: Run, tables: Tables, results: Results) -> list[Section]:
    """No section for a run that was not asked for CPU samples."""
    cpu = results.cpu
    if cpu is None and "perf" not in run.asked:
        return []
    section = Section()
    if cpu is None:
        section.absent = run.absent("perf")
        return [section]
    whole = cpu.whole
    section.facts.append(
        (
            "samples",
            f"{whole.samples:,}, each {units.ns(cpu.period_ns)} of one CPU;"
            f" {whole.samples - whole.busy.samples:,} idle, left out below",
        )
    )
    section.facts.append(
        (
            "busy",
            f"{units.ns(whole.busy.ns)} of CPU time, {units.percent(whole.busy_share)} % of the CPUs;"
            f" of this the workload {_share(whole.workload_samples, whole.busy.samples)} %, kernel"
            f" {_share(whole.kernel_samples, whole.busy.samples)} %",
        )
    )
    if cpu.counted_ns is not None and cpu.sampled_ns is not None:
        text = f"{units.ns(cpu.counted_ns)}; by samples of the same time {units.ns(cpu.sampled_ns)}"
        section.facts.append(("busy by /proc/stat", text))
    if cpu.phases:
        by_phase = [
            (
                p.name,
                units.seconds(p.elapsed_s),
                f"{p.busy.ns / 1e9:.2f}",
                units.percent(p.busy_share),
                _share(p.workload_samples, p.busy.samples),
                _share(p.kernel_samples, p.busy.samples),
                units.count(p.busy.samples),
            )
            for p in cpu.phases
        ]
        heads = ("<phase", "s", "CPU s", "busy %", "own %", "kernel %", "samples")
        section.tables.append(Table(heads, by_phase))
    for whose, functions, of in (
        ("workload", whole.workload, whole.workload_samples),
        ("other tasks", whole.others, whole.busy.samples - whole.workload_samples),
    ):
        top = _top(functions, TOP)
        if top:
            columns = (f"<functions: {whose}", "<in", "self %", "&95 %", "total %")
            lines = [(f.name, "kernel" if f.in_kernel else "user", *_shares(f, of)) for f in top]
            section.tables.append(Table(columns, lines, least_left=24))
    if len(cpu.phases) > 1:
        section.tables += _functions_by_phase(cpu.phases)
    section.definition = (
        profile.DEFINITION + " own %: share of the workload's processes. CPU s: busy time, all CPUs together;"
        " busy %: CPU s / (CPUs x elapsed)."
        " All samples: perf report -i raw/perf.data."
    )
    return [section]


def _top(functions: list[FunctionRow], most: int) -> list[FunctionRow]:
    return [f for f in functions[:most] if f.own.samples]


def _shares(f: FunctionRow, of: int) -> tuple[str, str, str]:
    """Self, its interval and total, in percent of so many samples."""
    whole_ns = f.own.ns / f.own.samples * of
    return _share(f.own.samples, of), _interval(f.own, whole_ns), _share(f.total_samples, of)


def _functions_by_phase(phases: list[profile.PhaseCpu]) -> list[Table]:
    """The workload's functions with the most self time, of each of its busiest phases."""
    rows = []
    longest = sorted(phases, key=lambda p: -p.workload_samples)[:MOST_PHASES]
    for p in (p for p in phases if p in longest):
        name = p.name
        for f in _top(p.workload, TOP_OF_PHASE):
            rows.append((name, f.name, *_shares(f, p.workload_samples)))
            name = ""
    heads = ("<phase", "<functions: workload", "self %", "&95 %", "total %")
    return [Table(heads, rows, least_left=16)] if rows else []


SECTIONS = (
    SectionSpec(
        "cpu", "CPU profile", 2700, build_cpu_profile, essential=True, collectors=("perf",), explains=(CPU,)
    ),
)
