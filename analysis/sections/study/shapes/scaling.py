# SPDX-License-Identifier: BSD-2-Clause
"""Throughput by number of processes, with the trend a x^b and the Universal Scalability Law (gus2011)."""

from __future__ import annotations

from analysis import units
from analysis.measures.scaling.saturation import SATURATION, find_saturation
from analysis.measures.statistics import power_law, usl
from analysis.measures.study.cells import Cells, Measured, Row
from analysis.measures.study.published import Needs
from analysis.measures.study.results import StudyResults
from analysis.measures.study.scaling import curve
from analysis.render.document import Section, Table
from analysis.sections.study.cell_text import Reasons, figure, finish, unit_of
from analysis.sections.study.shape import Shape

DEFINITION = (
    "a x^b: least squares in logarithms, all runs as points. R2 in logarithms is what spreadsheets print;"
    " R2 of the values is below it where the trend misses the large ones, and below 0 where a mean is"
    " nearer. 95 % is b's interval."
    f" {SATURATION}. USL: X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)); alpha: share of work"
    " that one process does at a time; beta: cost of coherence."
)

FIT_HEADS = (
    "<trend", "a", "&b", "95 % of b", "R2 log", "R2 of values", "runs", "saturates at", "USL alpha", "beta",
)  # fmt: skip


def build(table: Cells, _: StudyResults) -> Section:
    """For each row a table of means by x, and one of fits."""
    reasons = Reasons()
    section = Section()
    axis = table.spec.axis or "x"
    for row in table.rows:
        curves = {subject: curve(table, row, subject) for subject in table.subjects}
        xs = sorted({x for points in curves.values() for x in points})
        name = row.name if len(table.rows) > 1 else ""
        heads = [f"<{' '.join(part for part in (name, axis) if part)}", *table.subjects]
        lines = [[f"{x:g}", *(_mean(points.get(x), row) for points in curves.values())] for x in xs]
        lines = lines or [["-", *("" for _ in curves)]]
        for column, (subject, points) in enumerate(curves.items(), 1):
            if not points:  # its reason stands in the first line
                for line in lines:
                    line[column] = "" if line is not lines[0] else reasons.mark(table.cell(row, subject).why)
        section.tables.append(Table(heads, lines, least_left=10))
        section.notes.append(f"{row.name}: {unit_of(row)}" if unit_of(row) else row.name)
        fits = [fit for s, points in curves.items() if (fit := _fits(s, points)) is not None]
        if fits:
            section.tables.append(Table(FIT_HEADS, fits, least_left=10))
    return finish(section, table, reasons, DEFINITION)


def _mean(measured: Measured | None, row: Row) -> str:
    return "-" if measured is None else figure(measured, row.unit)


def _fits(subject: str, points: dict[float, Measured]) -> list[str] | None:
    xs = [x for x, measured in points.items() for _ in measured.values]
    ys = [value for measured in points.values() for value in measured.values]
    trend = power_law.fit(xs, ys)
    if trend is None:
        return None
    between = trend.b_interval
    law = usl.fit(xs, ys)
    return [
        subject,
        units.figures(trend.a),
        f"{trend.b:.2f}",
        f"{between.low:.2f}..{between.high:.2f}" if between is not None else "-",
        _r2(trend.r2_log),
        _r2(trend.r2_linear),
        str(trend.points),
        find_saturation({x: measured.mean for x, measured in points.items()}).text,
        f"{law.alpha:.3f}" if law.fitted else "no fit",
        f"{law.beta:.2g}" if law.fitted else "",
    ]


def _r2(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


SHAPE = Shape("scaling", 900, build, Needs(keys=("axis",)))
