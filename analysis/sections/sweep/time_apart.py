# SPDX-License-Identifier: BSD-2-Clause
"""Which cause makes the best configuration faster than the last: the difference of their times in seconds."""

from __future__ import annotations

from analysis.measures.compare.time_apart import TimeApart
from analysis.measures.ledger import PATH
from analysis.measures.sweep.data import Group, SweepData
from analysis.measures.sweep.group_times import apart, fastest_and_slowest
from analysis.render.document import Section, Table
from analysis.sections.compare.shown import Shown, ShownRow, claim, interval_text, shown_rows
from analysis.sections.sweep import show
from analysis.sections.sweep.spec import SweepSpec, defined_once

MOST_CAUSES = 8
WHOLE = "wall time"
TITLE = "Where the difference comes from"
DEFINITION = (
    "mean seconds of the workload's time by cause, by the critical path of each run, or by its threads' time"
    " where a run has no path: the lines sum to the workload's time. +-: Welch's 95 % interval of the"
    " difference; within noise: it has 0 in it; may be noise: p after Holm's correction over these lines is"
    " above 0.05. Only times of the same work (bytes and calls) are subtracted; of another amount of the same"
    " mix, times by unit of work."
)


def build_time_apart(data: SweepData) -> list[Section]:
    """A section a group of traced runs: the best configuration by the headline against the last."""
    sections = [_section(data, group) for group in data.groups if group.traced]
    return defined_once(sections, DEFINITION, "no traced run is done: TRACING=on records where the time goes")


def _section(data: SweepData, group: Group) -> Section:
    section = Section(title=show.title(TITLE, show.group(data, group)))
    both = fastest_and_slowest(group)
    if not both:
        section.absent = "no two configurations are ranked"
        return section
    best, last = both
    time = apart(group, last, best)
    if time is None or not time.known:
        section.absent = "the runs did not record where their time went (COLLECT=sched, threads)"
        return section
    if not time.is_compared:
        why = time.left_out[0][1] if time.left_out else "no times"
        section.absent = f"{best.label} and {last.label} do not compare in seconds: {why}"
        return section
    shown = shown_rows(time, MOST_CAUSES)
    section.notes.append(claim(time, shown, 1, last.label, best.label))
    rows = [_row(shown, time, row) for row in [*shown.rows, ShownRow(WHOLE, shown.total, None)]]
    heads = ["<cause, seconds", show.head(last), show.head(best), "&differ", "&95 %"]
    section.tables.append(Table(heads, rows))
    if time.basis != PATH:
        section.notes.append(f"by the threads' time, not the critical path: {time.why_threads}")
    return section


def _row(shown: Shown, time: TimeApart, row: ShownRow) -> list[str]:
    one = time.apart[row.cause.key, 1] if row.cause is not None else None
    if row.text == WHOLE:
        one = time.whole[1]
    return [row.text, *map(shown.number, row.units), shown.signed(row.apart(1)), interval_text(one)]


SECTIONS = (SweepSpec("time_apart", TITLE, 150, build_time_apart, essential=True),)
