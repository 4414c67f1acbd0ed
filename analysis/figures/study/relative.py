# SPDX-License-Identifier: BSD-2-Clause
"""Measured and published figures of each table, relative to the best of the row.

Measured: filled, with the 95 % interval of the mean. Published: hollow, below. The further left, the worse.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.figures import save, style
from analysis.figures.study_marks import Mark, all_names, file_names, subject_marks
from analysis.measures.study.cells import Cells, Row, relative
from analysis.measures.study.results import StudyResults, section_key
from analysis.render.output import Drawing, Made, Output, StudySource

WITHOUT = ("iographs", "scaling", "matrix")  # shapes with pictures of their own
WIDTH_IN, ROW_IN, HEAD_IN, FOOT_IN = 8.6, 0.42, 0.75, 0.85
LEFT_IN, RIGHT_IN = 2.3, 1.45
LEAST = 0.01  # of the best: what is below stands at the left edge
MOST_ROWS = 48
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
PNG_DPI = 100


def drawn_rows(table: Cells) -> list[Row]:
    """Rows with at least two figures of a kind to compare."""
    rows = []
    for row in table.rows:
        both = [relative(table, row, subject) for subject in table.subjects]
        if sum(ours is not None for ours, _ in both) > 1 or sum(theirs is not None for _, theirs in both) > 1:
            rows.append(row)
    return rows[:MOST_ROWS]


def draw(table: Cells, marks: dict[str, Mark], where: str) -> Figure | None:
    """The picture of one table; None: nothing to compare. where: study and machine."""
    rows = drawn_rows(table)
    if not rows:
        return None
    height = HEAD_IN + ROW_IN * len(rows) + FOOT_IN
    figure = Figure(figsize=(WIDTH_IN, height))
    FigureCanvasAgg(figure)
    size = ((WIDTH_IN - LEFT_IN - RIGHT_IN) / WIDTH_IN, ROW_IN * len(rows) / height)
    ax = figure.add_axes((LEFT_IN / WIDTH_IN, FOOT_IN / height, *size))
    lowest = 1.0
    for place, row in enumerate(rows):
        lowest = min(lowest, _draw_row(ax, table, row, place, marks))
    _finish_axes(ax, rows, lowest)
    figure.text(0.1 / WIDTH_IN, 1 - 0.25 / height, table.spec.title, fontsize=12, weight="bold", va="center")
    figure.text(0.1 / WIDTH_IN, 1 - 0.5 / height, where, fontsize=8.5, color=style.QUIET, va="center")
    foot = (
        "filled: measured, mean and 95 % interval; hollow: the paper's figure, below it. 1 is the best of"
        " the row, 0.5 half as good; the paper's 1 is its own best."
    )
    figure.text(0.1 / WIDTH_IN, 0.12 / height, foot, fontsize=7.5, color=style.QUIET, va="bottom")
    shown = [subject for subject in table.subjects if any(_has(table, row, subject) for row in rows)]
    handles = [
        Line2D([], [], color=marks[s].color, marker=marks[s].marker, linestyle="none", label=s) for s in shown
    ]
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1.0))
    return figure


def _has(table: Cells, row: Row, subject: str) -> bool:
    return any(value is not None for value in relative(table, row, subject))


def _draw_row(ax: Axes, table: Cells, row: Row, place: int, marks: dict[str, Mark]) -> float:
    """Draw the row's dots; returns the smallest share."""
    least = 1.0
    for subject in table.subjects:
        ours, theirs = relative(table, row, subject)
        mark = marks[subject]
        measured = table.cell(row, subject).measured
        if ours is not None and measured is not None:
            mean = measured.mean
            half = abs((mean.half_width or 0.0) / mean.value) * ours if mean.value else 0.0
            ends = [[min(half, ours * 0.999 - LEAST if ours > LEAST else 0.0)], [half]]
            ax.errorbar(
                max(ours, LEAST), place - 0.14, xerr=[[max(ends[0][0], 0.0)], ends[1]], color=mark.color,
                marker=mark.marker, markersize=6, linewidth=1.2, linestyle="none",
            )  # fmt: skip
            least = min(least, ours)
        if theirs is not None and row.is_comparable:
            ax.plot(
                max(theirs, LEAST), place + 0.2, color=mark.color, marker=mark.marker, markersize=5.5,
                markerfacecolor="white", linestyle="none",
            )  # fmt: skip
            least = min(least, theirs)
    return least


def _finish_axes(ax: Axes, rows: list[Row], lowest: float) -> None:
    ax.set_xscale("log")
    ax.set_xlim(max(min(lowest * 0.85, 0.45), LEAST * 0.95), 1.12)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_yticks(range(len(rows)), [_cut(row.name) for row in rows])
    ax.xaxis.set_major_locator(FixedLocator(list(TICKS)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel("relative to the best of the row (log scale)")
    ax.grid(True, axis="x")
    for place in range(len(rows) - 1):
        ax.axhline(place + 0.5, color=style.GRID, linewidth=0.6)
    ax.axvline(1.0, color=style.INK, linewidth=0.8)


def _cut(name: str) -> str:
    return name if len(name) <= 34 else name[:31] + "..."


def where_text(results: StudyResults) -> str:
    """Study, scale and machine, below a picture's title."""
    machine = results.sweep.machines.get(results.machine)
    parts = [f"study {results.study.name}", f"scale {results.study.scale}" if results.study.scale else ""]
    if machine is not None:
        parts += [
            f"Linux {machine.kernel}" if machine.kernel else "",
            f"{machine.cpus} CPUs" if machine.cpus else "",
        ]
    return ", ".join(part for part in parts if part)


def make(source: StudySource) -> Made:
    """A picture a table."""
    results = source.results
    marks = subject_marks(results)
    files: dict[str, bytes] = {}
    drawings = []
    for number, table in enumerate(results.tables, 1):
        if table.spec.shape in WITHOUT:
            continue
        with style.applied():
            figure = draw(table, marks, where_text(results))
            if figure is None:
                continue
            png, svg = save.png(figure, dpi=source.dpi or PNG_DPI), save.svg(figure)
        files |= dict(zip(file_names("relative", number), (png, svg), strict=True))
        drawings.append(
            Drawing(
                f"{table.spec.title}: measured and published, relative to the best",
                svg,
                section=section_key(number),
            )
        )
    return Made(files, drawings)


OUTPUT = Output("relative", 20, all_names("relative"), make)
