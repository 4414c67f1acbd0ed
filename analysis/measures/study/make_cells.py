# SPDX-License-Identifier: BSD-2-Clause
"""Makes the cells of a study's table: figures of the sweep's runs, beside the published ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.measures.study.cells import NOT_OF_TIME, Cell, Cells, Measured, Row, better_of
from analysis.measures.study.published import Study, TableSpec
from analysis.rundir.sweep_dir import Configuration, Sweep

KINDS = ("metric", "phase", "outcome", "lock", "cause")  # of two measures of one name the first kind counts
LEAST_OTHER, MOST_OTHERS = 0.001, 12  # share from which a measure gets a row of its own; rows
MOST_ROWS, MOST_SUBJECTS = 300, 48  # of one table
TRACING = "TRACING"  # axis that is no option of the study: untraced runs are taken where there are some
_WORD = re.compile(r"\{([A-Z]+)\}")
FRAME = ("configuration", "measure", "task", "unit", "value", "kind", "better", "virtual", "bound", "lossy")


@dataclass(frozen=True)
class Sample:
    """One run's figure in one measure."""

    task: str
    unit: str
    value: float
    kind: str
    better: str
    virtual: bool
    bound: bool
    lossy: bool


Samples = Sequence[Sample]


def fill(template: str, words: Mapping[str, str]) -> str:
    """The template with its words: "{THREADS} processes" becomes "5 processes"."""
    return _WORD.sub(lambda match: words.get(match[1], "default"), template)


def machines_of(figures: pd.DataFrame) -> list[str]:
    """The machines that measured something, the one with most runs first."""
    runs = figures.groupby("machine")["task"].nunique() if len(figures) else pd.Series(dtype=int)
    return sorted(map(str, runs.index), key=lambda name: (-int(runs[name]), name))


def make_cells(study: Study, spec: TableSpec, sweep: Sweep, figures: pd.DataFrame, machine: str) -> Cells:
    """The table's cells from one machine's figures."""
    builder = _Builder(study, spec, sweep, figures, machine)
    return builder.cells()


class _Builder:
    def __init__(
        self, study: Study, spec: TableSpec, sweep: Sweep, figures: pd.DataFrame, machine: str
    ) -> None:
        self.spec, self.sweep, self.machine = spec, sweep, machine
        self.published = study.published.get(spec.published, {}) if spec.published else {}
        self.configurations = [
            one for one in sweep.configurations if one.part == spec.part and _has(one, spec.where)
        ]
        self.free = self._free_axes()
        of_part = {one.id for one in self.configurations}
        is_ours = (figures["machine"] == machine) & figures["configuration"].isin(of_part)
        frame = figures[is_ours & ~figures["anchor"].astype(bool)]
        frame = frame[pd.notna(frame["value"])].sort_values(["rep", "task"], kind="stable")
        self.samples: dict[tuple[str, str], list[Sample]] = {}
        for configuration, measure, *facts in zip(*(frame[column] for column in FRAME), strict=True):
            self.samples.setdefault((str(configuration), str(measure)), []).append(_sample(*facts))

    def _subject(self, name: str) -> str:
        return self.spec.groups.get(name, name)

    def _free_axes(self) -> list[str]:
        """Axes that vary within a subject and are neither the table's axis nor named by a row."""
        named = {word for pair in self.spec.rows.items() for text in pair for word in _WORD.findall(text)}
        taken = named | {self.spec.axis, "FS", TRACING}
        values: dict[str, dict[str, set[str]]] = {}
        for one in self.configurations:
            for axis, word in one.axes.items():
                if axis not in taken:
                    values.setdefault(axis, {}).setdefault(one.subject, set()).add(word)
        return [axis for axis, of in values.items() if any(len(some) > 1 for some in of.values())]

    def _row(self, template: str, one: Configuration) -> str:
        name = fill(template, {**one.words, **one.axes})
        if self.spec.groups:
            return name
        return ", ".join([name, *(f"{axis}={one.axes.get(axis, '-')}" for axis in self.free)])

    def _option(self, one: Configuration) -> str:
        words = {**one.words, **one.axes}
        if self.spec.axis:
            return words.get(self.spec.axis, "default")
        if not self.spec.groups:
            return ""
        return ", ".join([one.subject, *(f"{axis}={one.axes.get(axis, '-')}" for axis in self.free)])

    def cells(self) -> Cells:
        """All rows and subjects; published ones that nothing measures too."""
        measures: dict[str, str] = {}
        candidates: dict[tuple[str, str], list[Configuration]] = {}
        for template, measure in self.spec.rows.items():
            for one in self.configurations:
                row = self._row(template, one)
                measures.setdefault(row, self._measure(fill(measure, {**one.words, **one.axes})))
                candidates.setdefault((row, self._subject(one.subject)), []).append(one)
            if not self.configurations:
                measures.setdefault(template, measure)
        for measure in self._other_measures(set(measures.values())):
            row = measure.removeprefix(self.spec.others)
            measures.setdefault(row, measure)
            for one in self.configurations:
                candidates.setdefault((row, self._subject(one.subject)), []).append(one)
        for published_row, _ in self.published:
            measures.setdefault(published_row, "")
        subjects = dict.fromkeys(
            [
                *(self._subject(one.subject) for one in self.configurations),
                *(self._subject(one.subject) for one in self.sweep.refused if one.part == self.spec.part),
                *(subject for _, subject in self.published),
            ]
        )
        notes = [
            note for one in self.configurations for note in one.notes if "estimate" not in note
        ]  # the plan's
        if len(measures) > MOST_ROWS or len(subjects) > MOST_SUBJECTS:
            notes.append(
                f"only the first {MOST_ROWS} of {len(measures):,} rows and {MOST_SUBJECTS} of"
                f" {len(subjects):,} subjects are shown"
            )
        subjects = dict.fromkeys(list(subjects)[:MOST_SUBJECTS])
        rows: list[Row] = []
        cells: dict[tuple[str, str], Cell] = {}
        for name, measure in list(measures.items())[:MOST_ROWS]:
            units = {figure.unit for key, figure in self.published.items() if key[0] == name}
            rows_of = [
                (one, self._values(one, measure, units))
                for subject in subjects
                for one in candidates.get((name, subject), [])
            ]
            facts = self._facts(name, measure, [one for _, samples in rows_of for one in samples], units)
            rows.append(facts)
            for subject in subjects:
                ours = [(one, samples) for one, samples in rows_of if self._subject(one.subject) == subject]
                cells[name, subject] = self._cell(facts, subject, ours)
        return Cells(self.spec, tuple(rows), tuple(subjects), cells, tuple(dict.fromkeys(notes)))

    def _measure(self, name: str) -> str:
        """The measure of this name; of a lock, whose kind may be left out, the one that some run has."""
        prefix = self.spec.others
        if not prefix or not name:
            return name
        known = {measure for _, measure in self.samples if measure.startswith(prefix)}
        exact = f"{prefix}{name}"
        ends = sorted(measure for measure in known if measure.endswith(f" {name}"))
        return exact if exact in known or not ends else ends[0]

    def _other_measures(self, mapped: set[str]) -> list[str]:
        """Measures with the beginning that the shape states and that no row names, the largest first."""
        largest: dict[str, float] = {}
        for (_, measure), samples in self.samples.items():
            if self.spec.others and measure.startswith(self.spec.others) and measure not in mapped:
                largest[measure] = max(largest.get(measure, 0.0), *(one.value for one in samples))
        shown = [measure for measure, value in largest.items() if value >= LEAST_OTHER]
        return sorted(shown, key=lambda measure: (-largest[measure], measure))[:MOST_OTHERS]

    def _values(self, one: Configuration, measure: str, units: set[str]) -> list[Sample]:
        """The runs of a configuration in a measure, of one kind and one unit."""
        samples = self.samples.get((one.id, measure), [])
        if not samples:
            return []

        def place(sample: Sample) -> tuple[bool, int, str, str]:
            kind = KINDS.index(sample.kind) if sample.kind in KINDS else len(KINDS)
            return sample.unit not in units, kind, sample.kind, sample.unit

        first = min(samples, key=place)
        return [sample for sample in samples if (sample.kind, sample.unit) == (first.kind, first.unit)]

    def _facts(self, name: str, measure: str, samples: Samples, units: set[str]) -> Row:
        """Unit and direction of a row: of the measure; else of the published figures."""
        published_unit = next(iter(sorted(units)), "")
        unit = samples[0].unit if samples else published_unit
        stated = samples[0].better if samples else ""
        better = self.spec.better or (stated if stated in ("higher", "lower") else better_of(unit))
        return Row(name, measure, unit, better, unit not in NOT_OF_TIME, published_unit)

    def _cell(self, row: Row, subject: str, ours: Sequence[tuple[Configuration, Samples]]) -> Cell:
        published = self.published.get((row.name, subject))
        measured = self._measured([(one, samples) for one, samples in ours if samples])
        if measured:
            measured.sort(key=lambda one: one.mean.value if row.better == "lower" else -one.mean.value)
            return Cell(measured[0], published, options=tuple(measured))
        return Cell(None, published, self._why(row, subject, [one for one, _ in ours]))

    def _measured(self, ours: Sequence[tuple[Configuration, Samples]]) -> list[Measured]:
        """An item an option. Of two configurations that differ only in tracing, the untraced one counts."""
        twins: dict[tuple[object, ...], dict[bool, tuple[Configuration, Samples]]] = {}
        for one, samples in ours:
            axes = tuple(sorted((axis, word) for axis, word in one.axes.items() if axis != TRACING))
            twins.setdefault((one.subject, axes), {}).setdefault(one.traced, (one, samples))
        measured = []
        for by_tracing in twins.values():
            one, samples = by_tracing.get(False) or by_tracing[True]
            measured.append(
                Measured(
                    option=self._option(one),
                    configuration=one.id,
                    traced=by_tracing[True][0].id if True in by_tracing else "",
                    values=tuple(sample.value for sample in samples),
                    tasks=tuple(sample.task for sample in samples),
                    virtual=one.virtual or any(sample.virtual for sample in samples),
                    bound=any(sample.bound for sample in samples),
                    lossy=any(sample.lossy for sample in samples),
                )
            )
        return measured

    def _why(self, row: Row, subject: str, ours: Sequence[Configuration]) -> str:
        """Why nothing was measured."""
        if row.measure and ours:
            return self._why_not_run(row, ours)
        refused = [
            one
            for one in self.sweep.refused
            if one.part == self.spec.part and self._subject(one.subject) == subject
        ]
        for one in refused:
            words = {**one.words, **one.axes}
            if any(fill(template, words) == row.name for template in self.spec.rows):
                return one.why
        if not row.measure:
            gone, unmapped = "kernels of today have no such thing", "no workload of this study measures it"
            return gone if row.name in self.spec.rows else unmapped
        if refused:
            return refused[0].why
        if any(self._subject(one.subject) == subject for one in self.configurations):
            return "not part of this sweep"
        return "left out of this sweep"

    def _why_not_run(self, row: Row, ours: Sequence[Configuration]) -> str:
        ids = {one.id for one in ours}
        tasks = [
            task
            for task in self.sweep.tasks
            if task.configuration is not None
            and task.configuration.id in ids
            and task.machine == self.machine
        ]
        if any(task.outcome == "done" for task in tasks):
            return f"its runs have no figure {row.measure!r}"
        failed = next((task for task in tasks if task.outcome not in ("done", "running")), None)
        if failed is not None:
            ended = "was interrupted" if failed.outcome == "interrupted" else failed.outcome
            return f"the run {ended}" + (f": {failed.why}" if failed.why else "")
        return "not run yet"


def _sample(
    task: object, unit: object, value: float, kind: object, better: object, virtual: object, bound: object,
    lossy: object,
) -> Sample:  # fmt: skip
    return Sample(
        str(task), str(unit), float(value), str(kind), str(better), bool(virtual), bool(bound), bool(lossy)
    )


def _has(one: Configuration, where: Mapping[str, str]) -> bool:
    words = {**one.words, **one.axes}
    return all(words.get(key) == word for key, word in where.items())
