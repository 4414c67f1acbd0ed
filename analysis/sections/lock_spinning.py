# SPDX-License-Identifier: BSD-2-Clause
"""Lock spinning as a share of the CPUs: traced, and the part that only CPU samples show."""

from __future__ import annotations

from analysis import units
from analysis.measures.locks import lock_samples
from analysis.measures.locks.lock_samples import Estimate
from analysis.measures.results import Results
from analysis.render.document import Section, Table
from analysis.rundir.run import Run
from analysis.sections.lock_labels import ESTIMATED, TOP, approx, interval, name
from analysis.sections.spec import LOCKS, SectionSpec
from analysis.tables.load import Tables


def build_lock_spinning(run: Run, tables: Tables, results: Results) -> list[Section]:
    """One row a lock: traced spinning, and unseen spinning by CPU samples."""
    rows, samples = results.locks.rows, results.locks.samples
    if not rows:
        return []
    section = Section()
    all_ns = results.window.elapsed_s * 1e9 * run.cpus if run.cpus else None

    def of_cpus(ns: float) -> str:
        return units.percent(ns / all_ns) if all_ns else "-"

    unseen = {s.key: s.seen for s in samples.spins if s.key} if samples else {}
    shown: list[tuple[float, tuple[str, ...]]] = []
    for r in rows:
        guess = unseen.get(r.key)
        if r.spin_ns or guess:
            shown.append(
                (
                    max(r.spin_ns, guess.ns if guess else 0),
                    (
                        r.type,
                        name(r),
                        approx(units.ns(r.spin_ns), r),
                        of_cpus(r.spin_ns),
                        of_cpus(r.workload_spin_ns),
                        ESTIMATED + units.ns(guess.ns) if guess else "",
                        interval(guess) if guess else "",
                    ),
                )
            )
    for s in samples.spins if samples else []:
        if not s.key:
            shown.append(
                (s.seen.ns, (s.type, s.name, "", "", "", ESTIMATED + units.ns(s.seen.ns), interval(s.seen)))
            )
    shown.sort(key=lambda item: -item[0])
    if shown:
        heads = ("<type", "<lock, or first caller", "spin", "CPU %", "own %", "unseen >=", "samples' 95 %")
        body = [row for _, row in shown[:TOP]]
        columns = 7 if samples and samples.spins else 5
        section.tables.append(Table(heads[:columns], [row[:columns] for row in body]))
        if len(shown) > TOP:
            section.notes.append(f"{len(shown) - TOP} more locks, each with less spinning")
    else:
        section.notes.append("no spinning on locks was recorded")
    if samples is None:
        section.notes.append(
            "spinning that no tracepoint shows was not sampled"
            + (f": {why}" if (why := run.off("locks")) else "")
        )
    else:
        traced = sum(r.spin_ns for r in rows)
        section.notes.append(
            f"unseen spinning, which no tracepoint shows, at least: {units.ns(samples.unseen.ns)} of CPU"
            f" ({interval(samples.unseen)}, {samples.unseen.samples:,} samples of"
            f" {units.ns(samples.period_ns)}), {of_cpus(samples.unseen.ns)} % of the CPUs;"
            f" {samples.unseen_workload.samples:,} samples in the workload's tasks"
        )
        section.notes.append(_check(samples.also_traced, traced))
    section.definition = (
        "CPU %: time spinning / (CPUs x elapsed), all tasks and interrupts; own: the workload's tasks. "
        + lock_samples.DEFINITION
    )
    return [section]


def _check(sampled: Estimate, traced_ns: int) -> str:
    """Traced spinning by samples against the tracepoints' own time."""
    text = (
        f"check: traced spinning is {units.ns(sampled.ns)} ({interval(sampled)}) by samples and"
        f" {units.ns(traced_ns)} by tracepoints"
    )
    if sampled.high_ns < traced_ns:
        missed = units.percent(1 - sampled.ns / traced_ns)
        text += f": samples missed {missed} %, likely also of the unseen spinning"
    return text


SECTIONS = (
    SectionSpec(
        "lock_spinning",
        "Lock spinning (sampled)",
        2000,
        build_lock_spinning,
        collectors=("locks",),
        explains=(LOCKS,),
    ),
)
