# SPDX-License-Identifier: BSD-2-Clause
"""iomatrix's matrices side by side: operations down, file systems across, one scale of colour."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from analysis import units
from analysis.figures import save, style
from analysis.figures.study.relative import PNG_DPI, where_text
from analysis.figures.study_marks import INSIDE, all_names, file_names
from analysis.measures.study.matrix import SubjectMatrix, measure_matrices
from analysis.measures.study.results import section_key
from analysis.render.output import Drawing, Made, Output, StudySource

CELL_IN, GAP_IN, LEFT_IN, TOP_IN, RIGHT_IN, FOOT_IN = 1.55, 0.22, 1.0, 1.05, 1.1, 0.75
MOST_SUBJECTS, MOST_OPERATIONS = 8, 8
TABLE = "study-matrix.csv"


def _name(kib: int) -> str:
    for unit, factor in (("G", 1 << 20), ("M", 1 << 10)):
        if kib >= factor:
            return f"{kib / factor:g}{unit}"
    return f"{kib}K"


def draw(matrices: Sequence[SubjectMatrix], title: str, where: str) -> Figure:
    """The picture."""
    shown = matrices[:MOST_SUBJECTS]
    operations = list(dict.fromkeys(operation for one in shown for operation, _, _ in one.cells))[
        :MOST_OPERATIONS
    ]
    files = sorted({file for one in shown for _, file, _ in one.cells})
    records = sorted({record for one in shown for _, _, record in one.cells})
    values = [mean.value for one in shown for mean in one.cells.values() if mean.value > 0]
    norm = LogNorm(min(values, default=1.0), max(values, default=10.0) * 1.0001)
    width = LEFT_IN + len(shown) * (CELL_IN + GAP_IN) + RIGHT_IN
    height = TOP_IN + len(operations) * (CELL_IN + GAP_IN) + FOOT_IN
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    figure.text(0.12 / width, 1 - 0.25 / height, title, fontsize=12, weight="bold", va="center")
    figure.text(0.12 / width, 1 - 0.5 / height, where, fontsize=8.5, color=style.QUIET, va="center")
    image = None
    for column, one in enumerate(shown):
        for place, operation in enumerate(operations):
            left = LEFT_IN + column * (CELL_IN + GAP_IN)
            bottom = height - TOP_IN - (place + 1) * (CELL_IN + GAP_IN) + GAP_IN
            ax = figure.add_axes((left / width, bottom / height, CELL_IN / width, CELL_IN / height))
            grid = np.full((len(files), len(records)), np.nan)
            for (of, file, record), mean in one.cells.items():
                if of == operation and mean.value > 0:
                    grid[files.index(file), records.index(record)] = mean.value
            image = ax.imshow(grid, norm=norm, cmap="viridis", origin="lower", aspect="auto")
            _finish(ax, files, records, column == 0, place == len(operations) - 1)
            if place == 0:
                option = INSIDE if one.virtual else one.option if one.option != one.subject else ""
                ax.set_title(f"{one.subject}\n{option}", fontsize=8.5, color=_ink(one))
            if column == 0:
                ax.set_ylabel(f"{operation}\nfile size")
    if image is not None:
        bar = figure.add_axes(((width - RIGHT_IN + 0.25) / width, FOOT_IN / height, 0.15 / width, 0.5))
        figure.colorbar(image, cax=bar)
        bar.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.rate(value)))
        bar.yaxis.set_minor_formatter(NullFormatter())
        bar.set_title("KiB/s", fontsize=9)
    foot = "record size across, file size up; each cell is the mean over the runs; white: not measured"
    figure.text(0.12 / width, 0.1 / height, foot, fontsize=7.5, color=style.QUIET, va="bottom")
    return figure


def _ink(one: SubjectMatrix) -> str:
    return style.ALARM if one.virtual else style.INK


def _finish(ax: Axes, files: Sequence[int], records: Sequence[int], is_left: bool, is_last: bool) -> None:
    ax.grid(False)
    for axis, sizes, is_named in ((ax.xaxis, records, is_last), (ax.yaxis, files, is_left)):
        step = max(1, (len(sizes) + 4) // 5)
        ticks = list(range(0, len(sizes), step))
        axis.set_ticks(ticks, [_name(sizes[i]) if is_named else "" for i in ticks])
        axis.set_tick_params(labelsize=7.5)


def _csv(matrices: Sequence[SubjectMatrix]) -> bytes:
    """A line a cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["subject", "option", "operation", "file_kib", "record_kib", "n", "kib_per_s", "half_width_95"]
    )
    for one in matrices:
        for (operation, file, record), mean in one.cells.items():
            half = "" if mean.half_width is None else f"{mean.half_width:.10g}"
            line = [one.subject, one.option, operation, file, record, mean.n, f"{mean.value:.10g}", half]
            writer.writerow(line)
    return text.getvalue().encode("utf-8", "backslashreplace")


def make(source: StudySource) -> Made:
    """A picture a table of the shape matrix, and all cells of the first as CSV."""
    files: dict[str, bytes] = {}
    drawings = []
    for number, table in enumerate(source.results.tables, 1):
        if table.spec.shape != "matrix":
            continue
        matrices = measure_matrices(table, source.results.sweep)
        if not matrices:
            continue
        files.setdefault(TABLE, _csv(matrices))
        with style.applied():
            figure = draw(matrices, table.spec.title, where_text(source.results))
            png, svg = save.png(figure, dpi=source.dpi or PNG_DPI), save.svg(figure, raster_dpi=2 * PNG_DPI)
        files |= dict(zip(file_names("matrix", number), (png, svg), strict=True))
        caption = f"{table.spec.title}: by record size and file size"
        drawings.append(Drawing(caption, svg, section=section_key(number)))
    return Made(files, drawings)


OUTPUT = Output("matrix", 40, [*all_names("matrix"), TABLE], make)
