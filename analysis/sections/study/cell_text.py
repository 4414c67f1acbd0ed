# SPDX-License-Identifier: BSD-2-Clause
"""Cells as text: the measured figure with its interval, marks, the published figure, and numbered reasons."""

from __future__ import annotations

from collections.abc import Iterable

from analysis import units
from analysis.measures.statistics.differences import compare
from analysis.measures.study.cells import Cell, Cells, Measured, Row, best_published
from analysis.render.document import Section, Table

LEGEND = (
    "[x]: best mean of the row. ~x: does not differ from the best by the rule (95 % intervals apart, and 10"
    " %; Bryant 2002). x +-y: mean and 95 % half-width over the runs. paper: the published figure, of"
    " another machine: only orders and ratios compare."
)
MOST_REMARKS = 6
SHOWN_UNITS = {"share": "% of all CPU time", "-1 to 1": "-1..1"}


class Reasons:
    """Why cells are empty, each reason once, numbered in the order of the cells."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, why: str) -> str:
        """The mark of a cell without figure: "-(1)"."""
        return f"-({self._numbers.setdefault(why, len(self._numbers) + 1)})"

    def notes(self) -> list[str]:
        """A note a reason."""
        return [f"-({number}): not measured: {why}" for why, number in self._numbers.items()]


def number(value: float, unit: str) -> str:
    """The figure without its unit."""
    if unit == "share":
        return units.percent(value)
    if unit == "B":
        return units.bytes_(value)
    if unit == "ns":
        return units.ns(value)
    return units.rate(value)


def unit_of(row: Row) -> str:
    """The unit as it is shown; bytes and ns stand with the number."""
    return SHOWN_UNITS.get(row.unit, "" if row.unit in ("B", "ns") else row.unit)


def row_name(row: Row) -> str:
    """Name and unit: "initial create, MB/s"."""
    unit = unit_of(row)
    is_named = not unit or f" {row.name}".endswith(f" {unit}")
    return row.name if is_named else f"{row.name}, {unit}"


def figure(measured: Measured, unit: str) -> str:
    """Mean and half-width; ">=" before a lower bound; v, * after it: machine inside, lost events."""
    mean = measured.mean
    text = number(mean.value, unit)
    if mean.half_width is not None:
        text += f" +-{_half(mean.half_width, unit)}"
    return (">= " if measured.bound else "") + text + marks(measured)


def _half(half: float, unit: str) -> str:
    if unit == "share":
        return units.figures(half * 100, 2)
    return number(half, unit) if unit in ("B", "ns") else units.figures(half, 2)


def marks(measured: Measured) -> str:
    """v: of a virtual machine; *: a collector lost events."""
    return (" v" if measured.virtual else "") + (" *" if measured.lossy else "")


def here(table: Cells, row: Row, subject: str, reasons: Reasons) -> str:
    """The measured figure with its marks; the best in brackets."""
    cell = table.cell(row, subject)
    if cell.measured is None:
        return reasons.mark(cell.why)
    text = figure(cell.measured, row.unit)
    ranked = table.ranked(row)
    if len(ranked) < 2 or subject not in ranked:
        return text
    if subject == ranked[-1]:
        return f"[{text}]"
    best = table.cell(row, ranked[-1]).measured
    difference = compare(best.values, cell.measured.values) if best is not None else None
    return f"~{text}" if difference is not None and difference.rule is False else text


def paper(table: Cells, row: Row, subject: str) -> str:
    """The published figure, the best in brackets."""
    published = table.cell(row, subject).published
    if published is None:
        return "-"
    if published.value is None:
        return published.note if published.rank is not None else "-"
    text = f"{published.bound}{units.rate(published.value)}"
    return f"[{text}]" if subject == best_published(table, row) else text


def share_text(value: float | None) -> str:
    """A share of the best, 1.00 the best."""
    return "-" if value is None else f"{value:.2f}"


def has_published(table: Cells, row: Row) -> bool:
    """Whether the source has a figure of the row."""
    return any(table.cell(row, subject).published is not None for subject in table.subjects)


def two_lines(table: Cells, rows: Iterable[Row], reasons: Reasons, heading: str) -> Table:
    """Rows by subjects: below each measured line the published one, where there is one."""
    shown = list(rows)
    is_published = any(has_published(table, row) for row in shown)
    lines: list[list[str]] = []
    for row in shown:
        kind = ["here"] if is_published else []
        lines.append([row_name(row), *kind, *(here(table, row, s, reasons) for s in table.subjects)])
        if has_published(table, row):
            lines.append(["", "paper", *(paper(table, row, s) for s in table.subjects)])
    kinds = ["<"] if is_published else []
    return Table([f"<{heading}", *kinds, *table.subjects], lines, least_left=20)


def runs_note(cells: Iterable[Cell]) -> str:
    """How many runs are behind the figures."""
    counts = sorted({len(cell.measured.values) for cell in cells if cell.measured is not None})
    if not counts:
        return ""
    if counts == [1]:
        return "n = 1: single runs, which have no interval: no order can be told from them"
    return f"n = {counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "") + " runs a figure"


def finish(section: Section, table: Cells, reasons: Reasons, definition: str = LEGEND) -> Section:
    """The section with its title, reasons, number of runs and notes."""
    section.title = section.title or table.spec.title
    cells = [table.cell(row, subject) for row in table.rows for subject in table.subjects]
    notes = [runs_note(cells), *reasons.notes(), *virtual_notes(table), *table.notes, table.spec.note]
    notes += published_notes(table)
    if any(cell.measured is not None and cell.measured.lossy for cell in cells):
        notes.append("*: a collector behind the figure lost events; the runs' own reports say which")
    mismatched = [row.name for row in table.rows if not row.is_comparable]
    if mismatched:
        notes.append(f"not compared, as the source has another kind of unit: {', '.join(mismatched)}")
    section.notes += [note for note in notes if note]
    section.definition = definition
    if not any(cell.measured is not None for cell in cells):
        section.notes.insert(0, "nothing of this table is measured yet: the published figures stand alone")
    return section


def published_notes(table: Cells) -> list[str]:
    """What the source says beside its figures, each remark once with the subjects that it is about."""
    subjects: dict[str, dict[str, None]] = {}
    for row in table.rows:
        for subject in table.subjects:
            published = table.cell(row, subject).published
            if (
                published is not None
                and published.note
                and (published.value is not None or published.rank is None)
            ):
                subjects.setdefault(published.note, {})[subject] = None
    every = [f"paper, {', '.join(of)}: {note}" for note, of in subjects.items()]
    more = (
        [f"and {len(every) - MOST_REMARKS} more remarks, see study.csv"] if len(every) > MOST_REMARKS else []
    )
    return every[:MOST_REMARKS] + more


def virtual_notes(table: Cells) -> list[str]:
    """Which subjects ran in a virtual machine."""
    inside = [
        subject
        for subject in table.subjects
        if any(
            (cell := table.cell(row, subject)).measured is not None and cell.measured.virtual
            for row in table.rows
        )
    ]
    if not inside:
        return []
    names = ", ".join(inside)
    return [f"v: {names}: run in a virtual machine; these times never compare with those outside"]
