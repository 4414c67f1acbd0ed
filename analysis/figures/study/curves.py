# SPDX-License-Identifier: BSD-2-Clause
"""Throughput by number of processes, a line a subject, with the trend a x^b dashed."""

from __future__ import annotations

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.figures import save, style
from analysis.figures.axes import number
from analysis.figures.study.relative import PNG_DPI, where_text
from analysis.figures.study_marks import INSIDE, Mark, all_names, file_names, subject_marks
from analysis.measures.statistics import power_law
from analysis.measures.study.cells import Cells, Row
from analysis.measures.study.results import section_key
from analysis.measures.study.scaling import curve
from analysis.render.output import Drawing, Made, Output, StudySource

WIDTH_IN, HEIGHT_IN = 8.6, 4.4


def draw(table: Cells, row: Row, marks: dict[str, Mark], where: str) -> Figure | None:
    """The picture of one row; None: no subject has two points."""
    curves = {subject: curve(table, row, subject) for subject in table.subjects}
    shown = {subject: points for subject, points in curves.items() if len(points) > 1}
    if not shown:
        return None
    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN))
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0.1, 0.14, 0.71, 0.68))
    for subject, points in shown.items():
        mark, xs = marks[subject], list(points)
        means = [measured.mean for measured in points.values()]
        ax.errorbar(
            xs,
            [mean.value for mean in means],
            yerr=[mean.half_width or 0.0 for mean in means],
            color=mark.color,
            marker=mark.marker,
            markersize=5.5,
            linewidth=1.3,
            capsize=2,
            label=f"{subject} (inside)" if any(one.virtual for one in points.values()) else subject,
        )
        trend = power_law.fit(
            [x for x, measured in points.items() for _ in measured.values],
            [value for measured in points.values() for value in measured.values],
        )
        if trend is not None:
            grid = np.linspace(min(xs), max(xs), 60)
            ax.plot(grid, trend.at(grid), color=mark.color, linewidth=0.8, linestyle=(0, (4, 2)))
    ax.set_ylim(bottom=0)
    ax.set_xlim(left=0)
    ax.grid(True)
    ax.set_xlabel(table.spec.axis)
    ax.set_title(f"{row.name}, {row.unit}" if row.unit else row.name)
    ax.yaxis.set_major_formatter(number)
    ax.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0))
    figure.text(0.012, 0.955, table.spec.title, fontsize=12, weight="bold", va="center")
    figure.text(0.012, 0.9, where, fontsize=8.5, color=style.QUIET, va="center")
    foot = "points: mean and 95 % interval over the runs; dashed: trend a x^b, all runs as points"
    if any(one.virtual for points in shown.values() for one in points.values()):
        foot += f"; (inside): {INSIDE}, not comparable with the others"
    figure.text(0.012, 0.02, foot, fontsize=7.5, color=style.QUIET, va="bottom")
    return figure


def make(source: StudySource) -> Made:
    """A picture for the first row of each table of the shape scaling."""
    results = source.results
    marks = subject_marks(results)
    files: dict[str, bytes] = {}
    drawings = []
    for place, table in enumerate(results.tables, 1):
        if table.spec.shape != "scaling" or not table.rows:
            continue
        with style.applied():
            figure = draw(table, table.rows[0], marks, where_text(results))
            if figure is None:
                continue
            png, svg = save.png(figure, dpi=source.dpi or PNG_DPI), save.svg(figure)
        files |= dict(zip(file_names("scaling", place), (png, svg), strict=True))
        caption = f"{table.spec.title}: throughput by {table.spec.axis}"
        drawings.append(Drawing(caption, svg, section=section_key(place)))
    return Made(files, drawings)


OUTPUT = Output("scaling", 30, all_names("scaling"), make)
