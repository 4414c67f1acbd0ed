# SPDX-License-Identifier: BSD-2-Clause
"""Cells of a study's table: for each row and subject the measured figure beside the published one.

A cell without a measured figure states why: refused, failed, not run yet, left out. Nothing is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from analysis.measures.common.statistics import Mean, mean_ci
from analysis.measures.study.published import Published, TableSpec

TIMES = ("s", "ms", "us", "ns", "min")  # units of which less is better
NOT_OF_TIME = ("", "B", "-1 to 1", "tasks")  # units of measures that a slower CPU does not change


@dataclass(frozen=True)
class Measured:
    """The runs of one configuration in one measure. option: what tells it from the subject's others."""

    option: str
    configuration: str
    traced: str  # the configuration of the same words whose runs were traced; empty: none
    values: tuple[float, ...]
    tasks: tuple[str, ...]
    virtual: bool = False  # run in a virtual machine
    bound: bool = False  # a lower bound
    lossy: bool = False  # a collector behind the values lost events

    @property
    def mean(self) -> Mean:
        """Mean and 95 % half-width over the runs."""
        mean = mean_ci(self.values)
        assert mean is not None  # cells are made of runs
        return mean


@dataclass(frozen=True)
class Cell:
    """One subject in one row. options: the subject's configurations, best first; measured is the first."""

    measured: Measured | None
    published: Published | None
    why: str = ""  # why nothing was measured
    options: tuple[Measured, ...] = ()


@dataclass(frozen=True)
class Row:
    """One row: the published name, the measure, its unit, and whether higher or lower is better."""

    name: str
    measure: str
    unit: str
    better: str  # empty: not known, then nothing is the best
    of_time: bool
    published_unit: str = ""

    @property
    def is_comparable(self) -> bool:
        """Whether the published unit has the measure's direction: seconds do not compare with files/s."""
        direction = better_of(self.published_unit)
        return not direction or not self.better or direction == self.better

    def is_better(self, a: float, b: float) -> bool:
        """Whether a is better than b."""
        return a > b if self.better == "higher" else a < b


@dataclass(frozen=True)
class Cells:
    """One table of a study. notes: what its configurations state, such as the successor of a scheduler."""

    spec: TableSpec
    rows: tuple[Row, ...]
    subjects: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    notes: tuple[str, ...] = ()

    def cell(self, row: Row, subject: str) -> Cell:
        """The cell of a row and a subject."""
        return self.cells[row.name, subject]

    def best(self, row: Row) -> str | None:
        """The subject with the best measured figure outside of virtual machines; None: nothing to rank."""
        ranked = self.ranked(row)
        return ranked[-1] if ranked else None

    def ranked(self, row: Row) -> list[str]:
        """Subjects from the worst measured figure to the best; without those of a virtual machine."""
        means = {
            subject: cell.measured.mean.value
            for subject in self.subjects
            if (cell := self.cell(row, subject)).measured is not None
            and not (row.of_time and cell.measured.virtual and not self.all_virtual(row))
        }
        if not row.better:
            return []
        return sorted(means, key=lambda subject: means[subject], reverse=row.better == "lower")

    def all_virtual(self, row: Row) -> bool:
        """Whether all measured figures of the row are of virtual machines: then they compare."""
        measured = [self.cell(row, subject).measured for subject in self.subjects]
        return all(one.virtual for one in measured if one is not None)


def best_published(table: Cells, row: Row) -> str | None:
    """The subject with the best published figure; None: not told."""
    ranked = ranked_published(table, row)
    return ranked[-1] if ranked else None


def ranked_published(table: Cells, row: Row) -> list[str]:
    """Subjects from the worst published figure to the best, without those of which only a bound is known."""
    values = {
        subject: figure.value
        for subject in table.subjects
        if (figure := table.cell(row, subject).published) is not None
        and figure.value is not None
        and not figure.bound
    }
    if not row.better:
        return []
    return sorted(values, key=lambda subject: values[subject], reverse=row.better == "lower")


def better_of(unit: str) -> str:
    """higher or lower, as the unit has it; empty: the unit does not tell."""
    if unit in TIMES:
        return "lower"
    return "higher" if unit.endswith(("/s", "/min")) else ""


def relative(table: Cells, row: Row, subject: str) -> tuple[float | None, float | None]:
    """Measured and published figure relative to the best of its kind, 1 the best. None: not known.

    Lower-is-better figures are best / x, so that 0.5 always means half as good.
    """

    def share(value: float | None, best: float | None) -> float | None:
        if value is None or not best or not value:
            return None
        ratio = value / best if row.better == "higher" else best / value
        return ratio if math.isfinite(ratio) else None

    measured = table.cell(row, subject).measured
    best = table.best(row)
    best_cell = table.cell(row, best).measured if best is not None else None
    ours = measured if subject in table.ranked(row) else None
    published, best_name = table.cell(row, subject).published, best_published(table, row)
    top = table.cell(row, best_name).published if best_name is not None else None
    return (
        share(ours.mean.value if ours else None, best_cell.mean.value if best_cell else None),
        share(published.value if published else None, top.value if top else None),
    )


def with_rows(table: Cells, rows: Iterable[Row]) -> Cells:
    """The table with these rows only."""
    return replace(table, rows=tuple(rows))
