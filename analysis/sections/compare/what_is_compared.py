# SPDX-License-Identifier: BSD-2-Clause
"""The compared runs: what run.json states the same for all, and what differs."""

from __future__ import annotations

from analysis.render.document import Section, Table
from analysis.rundir.run import clean
from analysis.sections.compare.facts import same_and_different
from analysis.sections.compare.spec import CompareSpec, Runs, Tags
from analysis.sections.compare.table import DIFFERS, without_repeats


def build_what_is_compared(runs: Runs, tags: Tags) -> list[Section]:
    """The runs, what is the same for all and what differs."""
    section = Section()
    same, different = same_and_different(runs)
    for one, tag in zip(runs, tags.full, strict=True):
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
        section.notes.append("run.json states no difference")
    section.notes.append("the same: " + ("; ".join(f"{name} {value}" for name, value in same) or "nothing"))
    section.definition = (
        "DISK, JOURNAL and MNT stand for the device's and the mount point's names, new in every run."
        f" A ratio is over the first column. {DIFFERS}: the means differ by the rule (see differences)."
        " Repetitions (same options, kernel and machine) are one column, A+B n=2: mean +- 95 % interval."
    )
    return [section]


SECTIONS = (CompareSpec("compared", "What is compared", 100, build_what_is_compared, essential=True),)
