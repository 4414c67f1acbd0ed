# SPDX-License-Identifier: BSD-2-Clause
"""Sections on the compared runs themselves: what is the same and what differs, which difference may be called
one, what was lost, and what is amiss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis import units
from analysis.measures.common.statistics import DIFFERENCE, Mean, differ
from analysis.measures.common.tracing_cost import RECORDER, Cost, measure_cost
from analysis.measures.compare.compared_run import Compared, meaningless
from analysis.measures.compare.differences import sides
from analysis.render.document import Section, Table
from analysis.rundir.run import clean
from analysis.sections import about, request_owners
from analysis.sections.compare.differences import judged
from analysis.sections.compare.facts import same_and_different, tags
from analysis.sections.compare.table import (
    DIFFERS,
    LITTLE,
    Row,
    Value,
    integer,
    make_table,
    show_ratio,
    union,
    without_repeats,
)

Runs = Sequence[Compared]


def banners(runs: Runs) -> list[str]:
    """What must be said before any figure."""
    said = []
    emulated = [one.letter for one in runs if one.emulated]
    if emulated:
        said.append(
            f"{', '.join(emulated)} ran on emulated CPUs (QEMU TCG): their times and rates, and ratios of"
            f" them, mean little (columns marked {LITTLE}); counts, bytes, seeks and shares of these may be"
            " compared"
        )
    for one in runs:
        own = [*request_owners.banners(one.results), *about.banners(one.run, one.truncated_bytes)]
        # what the sentence above says for all of them is not said again for each
        said += [f"{one.letter}: {words}" for words in own if not words.startswith(about.EMULATED)]
    return said


def what_is_compared(runs: Runs) -> Section:
    """The runs, what is the same for all and what differs."""
    section = Section("What is compared")
    same, different = same_and_different(runs)
    for one, tag in zip(runs, tags(runs), strict=True):
        path = clean(one.run.path)
        section.facts.append((one.letter, f"{tag}: {path}" if tag else path))
    rows = []
    for name, values in different:
        letters: dict[str, list[str]] = {}
        for one, value in zip(runs, values, strict=True):
            letters.setdefault(value, []).append(one.letter)
        rows += [(name, " ".join(who), value) for value, who in letters.items()]
    if rows:
        shown = without_repeats(rows, 2)
        section.tables.append(Table(("<differs", "<run", "<is"), shown))
    else:
        section.notes.append("nothing that run.json tells differs")
    section.notes.append("the same: " + ("; ".join(f"{name} {value}" for name, value in same) or "nothing"))
    section.definition = (
        "DISK, JOURNAL and MNT stand for the device's and the mount point's names, new in every run."
        f" A ratio is over the first column. {DIFFERS}: the means differ by the rule (see differences)."
        " Repetitions (same words, kernel and machine) are one column, A+B n=2: mean +- 95 % interval."
    )
    return section


def _own(one: Compared, name: str) -> Mean | None:
    rows = one.results.phases or []
    return next((row.own_mb_s for row in rows if row.name == name), None)


def differences(runs: Runs) -> Section:
    """Which means differ, by the rule; the rest is single observations."""
    section = Section("Differences")
    if any(len(side) > 1 for side in sides(runs)):
        section.notes = judged(runs)
        section.definition = DIFFERENCE + " n: runs that are repetitions. compare.csv has all verdicts."
        return section
    names = union([[row.name for row in one.results.phases or []] for one in runs])
    first = runs[0]
    for name in names:
        a = _own(first, name)
        for one in runs[1:]:
            b = _own(one, name)
            if a is None or b is None or (verdict := differ(a, b)) is None:
                continue
            words = (
                f"{name}: own MB/s {units.mean(a)} in {first.letter} (n={a.n}), {units.mean(b)}"
                f" in {one.letter} (n={b.n}), ratio {show_ratio(a, b, False)}: "
            )
            if meaningless(first, one):
                words += "not judged, CPUs were emulated"
            else:
                words += "they differ" if verdict else "no difference by the rule"
            section.notes.append(words)
    if not section.notes:
        section.notes.append(
            "no runs are repetitions, and no phase has several observations in both: nothing is called a"
            " difference"
        )
    section.notes.append(
        "all other figures of one run are single observations; of runs that are repetitions, see what differs"
        " most"
    )
    section.definition = (
        DIFFERENCE + " n: phases of one name within one run, so the interval is that of phases within"
        " a run, not of runs repeated."
    )
    return section


def _cost_rows(name: str, costs: Sequence[Mapping[str, Cost]]) -> list[Row]:
    """What one collector cost in each run; nothing if no run knows it."""
    of = [cost.get(name) for cost in costs]
    values: dict[str, list[Value]] = {
        "BPF CPU %": [row.bpf.value if row is not None and row.bpf is not None else None for row in of],
        "user CPU %": [row.user if row is not None else None for row in of],
        "total %": [row.total if row is not None else None for row in of],
    }
    return [
        Row((name, what), shares, units.percent, ratio=False)
        for what, shares in values.items()
        if any(share is not None for share in shares)
    ]


def losses_section(runs: Runs, named: Sequence[str]) -> Section:
    """What each run's collectors saw and lost, and what recording cost."""
    section = Section("Losses and tracing cost")
    rows = []
    costs = [{row.name: row for row in measure_cost(one.run, one.results.recorded_s).rows} for one in runs]
    for name in union([list(one.run.losses) for one in runs]):
        of = [one.run.losses.get(name) for one in runs]
        recorded = [None if loss is None or not loss.is_on else loss.recorded for loss in of]
        lost = [None if loss is None or not loss.is_on else loss.lost_total for loss in of]
        rows += [
            Row((name, "recorded"), recorded, integer, ratio=False, is_sum=True),
            Row((name, "lost"), lost, integer, ratio=False, is_sum=True),
            *_cost_rows(name, costs),
        ]
        section.notes += [
            f"{one.letter}: {name} is off: {one.run.off(name)}"
            for one in runs
            if name in one.run.losses and name not in one.run.asked  # else "Warnings and gaps" says it
        ]
    rows += _cost_rows(RECORDER, costs)
    if rows:
        section.tables.append(make_table(("collector", ""), runs, named, rows, False, is_judged=False))
    else:
        section.absent = "no losses.json says anything"
    section.definition = (
        "BPF CPU %: time in BPF programs, timed in short windows (each run's report has its interval), over"
        f" all CPUs' time; user CPU %: of the collector's process ({RECORDER}: of all its collectors); total"
        f" %: both. Of repetitions recorded and lost are sums. {about.MARKING}"
    )
    return section


def warnings(runs: Runs) -> Section:
    """Which collectors have nothing, why figures are marked, what the sessions warned of, and what else this
    comparison lacks."""
    section = Section("Warnings and gaps")
    for one in runs:
        section.notes += [f"{one.letter}: {words}" for words in about.warning_words(one.run, one.results)]
    if not section.notes:
        section.notes = ["none"]
    return section
