# SPDX-License-Identifier: BSD-2-Clause
"""Heat map of locks by runs, two panels: share of all CPU time spent spinning, and time asleep.

Time asleep is per operation where all runs count the same kind of operation, else in seconds per second.
Every cell has its number. Colours go from light to dark, also in greyscale, on a log scale where the values
span more than two decades.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from analysis import units
from analysis.figures import save, style
from analysis.measures.common.timeline import F64
from analysis.measures.compare.compared_locks import (
    NONE,
    Lock,
    Locks,
    Sums,
    alike,
    by_class,
    of_workload,
    operations,
    per_operation_us,
    spin_share,
    top,
)
from analysis.measures.compare.compared_run import Compared
from analysis.render.output import CompareSource, Drawing, Made, Output
from analysis.sections.compare.facts import stacked

Runs = Sequence[Compared]
Get = Callable[[Sums, Compared], float | None]
CAPTION = "Heat map of locks by runs: share of CPU time spinning, and sleeping per operation"
MOST = 5  # locks per run
MOST_LOCKS = 16
LEAST_SLEEP = 0.001  # share of the highest run's time asleep from which a lock has a row
LEAST_SPIN = 0.001  # share of all CPU time spent spinning from which a lock has a row
COLORS = mpl.colormaps["YlOrBr"]
DECADES = 2.0  # between lowest and highest value, from which the scale is logarithmic
SHOWN_DECADES = 4.0  # of the log scale, from the highest down; lower values have the lightest colour
NAME_CHARACTERS = 40
CELL_IN = (0.66, 0.27)
NAMES_IN = 3.15
GAP_IN = 0.3
BAR_IN = 0.1
BAR_ROOM_IN = 0.5
LEAST_PANEL_IN = 2.0
TITLE_IN = 0.28
HEAD_IN = 0.5
BANNER_IN = 0.2
RUN_LINE_IN = 0.145
SIDE_BY_SIDE = 6  # runs; with more, the panels are one above the other


@dataclass(frozen=True)
class Panel:
    """One question: values by lock and run (NaN: not known), and the text of a cell."""

    title: str
    values: F64
    show: Callable[[float], str]
    least: float  # lower values have the lightest colour, as their texts are alike


def _shown(name: str) -> str:
    """The name; the middle of a long one is left out, as both ends identify it."""
    half = (NAME_CHARACTERS - 3) // 2
    return name if len(name) <= NAME_CHARACTERS else f"{name[:half]}...{name[-half:]}"


def percent(value: float) -> str:
    """The value, already in percent, as in the tables."""
    return units.percent(value / 100)


def short(value: float) -> str:
    """Two significant figures, which fit into a cell."""
    if 0 < value < 0.01:
        return "<.01"
    return units.rate(value) if value >= 1e5 else units.figures(value, 2)


def _matrix(runs: Runs, every: Sequence[Locks | None], locks: Sequence[Lock], get: Get) -> F64:
    values = np.full((len(locks), len(runs)), np.nan)
    for column, (one, sums) in enumerate(zip(runs, every, strict=True)):
        for row, lock in enumerate(locks):
            value = None if sums is None else get(sums.get(lock, NONE), one)
            values[row, column] = np.nan if value is None else value
    return values


def _values(runs: Runs, every: Sequence[Locks | None], get: Get) -> list[dict[Lock, float]]:
    pairs = zip(runs, every, strict=True)
    return [{lock: get(s, one) or 0.0 for lock, s in (sums or {}).items()} for one, sums in pairs]


def panels(runs: Runs) -> tuple[list[Lock], list[Panel]]:
    """The locks from the highest down, and the panels; no locks if none was waited on."""

    def spin(sums: Sums, one: Compared) -> float | None:
        return spin_share(sums.spin_ns, one)

    per_op = len(alike(runs)) == 1 and all(
        operations(one) is not None for one in runs if one.results.locks.rows is not None
    )

    def sleep(sums: Sums, one: Compared) -> float | None:
        if per_op:
            return per_operation_us(sums.sleep_ns, one)
        return sums.sleep_ns / 1e9 / one.results.window.elapsed_s

    of_all, own = [by_class(one) for one in runs], [of_workload(one) for one in runs]
    spinning, sleeping = _values(runs, of_all, spin), _values(runs, own, sleep)
    most_asleep = max((sum(values.values()) for values in sleeping), default=0.0)
    highest = top(spinning, MOST, LEAST_SPIN)[: MOST_LOCKS // 2]
    highest += top(sleeping, MOST, LEAST_SLEEP * most_asleep)[: MOST_LOCKS // 2]
    locks = list(dict.fromkeys(highest))
    title = "Asleep, µs per operation" if per_op else "Threads asleep (s per s)"
    return locks, [
        Panel("Spinning, % of all CPU time", _matrix(runs, of_all, locks, spin) * 100, percent, 0.05),
        Panel(title, _matrix(runs, own, locks, sleep), short, 0.01),
    ]


def _norm(values: F64, least: float) -> Normalize | None:
    """The colour scale of the values above 0; None: no value is above 0."""
    above = values[np.isfinite(values) & (values > 0)]
    if not above.size:
        return None
    low, high = max(float(above.min()), least), float(above.max())
    if high > low * 10**DECADES:
        return LogNorm(max(low, high / 10**SHOWN_DECADES), high, clip=True)
    return Normalize(0, max(high, least), clip=True)


def _draw_cells(ax: Axes, panel: Panel, norm: Normalize | None) -> None:
    rows, columns = panel.values.shape
    ax.set_xlim(0, columns)
    ax.set_ylim(rows, 0)
    for row in range(rows):
        for column in range(columns):
            value = float(panel.values[row, column])
            known = math.isfinite(value)
            color = "white"
            if known and value > 0 and norm is not None:
                color = to_hex(COLORS(float(norm(value))))
            hatch = None if known else "////"
            edge = style.GRID if known else "#CFCFCF"
            ax.add_patch(
                Rectangle((column, row), 1, 1, facecolor=color, edgecolor=edge, hatch=hatch, linewidth=0.6)
            )
            ink = "white" if lightness(color) < 0.5 else style.INK if value else style.QUIET
            label = panel.show(value) if known else "-"
            ax.text(column + 0.5, row + 0.52, label, ha="center", va="center", fontsize=8, color=ink)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0)


def lightness(color: str) -> float:
    """Lightness of a colour in greyscale, 0 (black) to 1."""
    red, green, blue = to_rgb(color)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def _draw_bar(figure: Figure, box: tuple[float, float, float, float], norm: Normalize) -> None:
    """The colour bar."""
    ax = figure.add_axes(box)
    bar = figure.colorbar(ScalarMappable(norm, COLORS), cax=ax, orientation="horizontal")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    if isinstance(norm, LogNorm):
        ax.xaxis.set_major_locator(LogLocator(base=10, numticks=7))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
    ax.tick_params(labelsize=7.5, length=2)
    bar.outline.set_visible(False)


def _run_labels(runs: Runs, tags: Sequence[str]) -> list[str]:
    """The labels above the columns: the run's letter and the lines of its tag, as wide as a cell."""
    labels = []
    for one, tag in zip(runs, tags, strict=True):
        lines = [part for line in tag.split("\n") for part in textwrap.wrap(line, 9)]
        letter = one.letter + ("~" if one.emulated else "") + (" *" if one.run.lossy("locks") else "")
        labels.append("\n".join([letter, *lines]))
    return labels


def draw(runs: Runs, tags: Sequence[str], title: str, banners: Sequence[str]) -> Figure | None:
    """The whole picture; None if no lock was waited on in any run."""
    locks, parts = panels(runs)
    if not locks:
        return None
    side_by_side = len(runs) <= SIDE_BY_SIDE
    labels = _run_labels(runs, tags)
    labels_in = RUN_LINE_IN * max(label.count("\n") + 1 for label in labels) + 0.1
    cells_in = (max(CELL_IN[0] * len(runs), LEAST_PANEL_IN), CELL_IN[1] * len(locks))
    panel_in = TITLE_IN + labels_in + cells_in[1] + BAR_ROOM_IN
    width_in = NAMES_IN + (2 if side_by_side else 1) * (cells_in[0] + GAP_IN) + 0.1
    shown = [
        line for banner in banners[:2] for line in textwrap.wrap(f"! {banner}", int(width_in / 0.078))[:2]
    ]
    if len(banners) > 2:
        shown.append(f"and {len(banners) - 2} more, see compare.txt")
    head_in = HEAD_IN + BANNER_IN * len(shown)
    foot = _foot(runs, int(width_in / 0.062))
    height_in = head_in + (1 if side_by_side else 2) * panel_in + 0.15 + 0.125 * (foot.count("\n") + 1)
    figure = Figure(figsize=(width_in, height_in))
    FigureCanvasAgg(figure)
    left = 0.12 / width_in
    figure.text(left, 1 - 0.25 / height_in, title, fontsize=12.5, weight="bold", color=style.INK, va="center")
    for i, banner in enumerate(shown):
        y = 1 - (0.52 + BANNER_IN * i) / height_in
        figure.text(left, y, banner, fontsize=8.5, color=style.ALARM, weight="bold", va="center")
    names = [f"{_shown(name)}  {kind}" for kind, name in locks]
    for i, panel in enumerate(parts):
        x_in = NAMES_IN + (i * (cells_in[0] + GAP_IN) if side_by_side else 0)
        top_in = head_in + (0 if side_by_side else i * panel_in)
        bottom_in = top_in + TITLE_IN + labels_in + cells_in[1]

        def box(
            at_in: float, size_in: tuple[float, float], x_in: float = x_in
        ) -> tuple[float, float, float, float]:
            size = (size_in[0] / width_in, size_in[1] / height_in)
            return (x_in / width_in, 1 - at_in / height_in, *size)

        ax = figure.add_axes(box(bottom_in, cells_in))
        norm = _norm(panel.values, panel.least)
        _draw_cells(ax, panel, norm)
        x, y = x_in / width_in, 1 - (top_in + 0.1) / height_in
        figure.text(x, y, panel.title, fontsize=10, weight="bold", color=style.INK, va="center")
        ax.xaxis.tick_top()
        ax.set_xticks(np.arange(len(runs)) + 0.5, labels, fontsize=8)
        for tick, one in zip(ax.get_xticklabels(), runs, strict=True):
            tick.set_color(style.ALARM if one.emulated else style.INK)
        ax.set_yticks(np.arange(len(locks)) + 0.5, names if i == 0 or not side_by_side else [], fontsize=8)
        if norm is not None:
            _draw_bar(figure, box(bottom_in + 0.1 + BAR_IN, (min(cells_in[0], 2.4), BAR_IN)), norm)
    figure.text(left, 0.1 / height_in, foot, fontsize=7.2, color=style.QUIET, va="bottom", linespacing=1.3)
    return figure


def _foot(runs: Runs, characters: int) -> str:
    foot = (
        "One row per class of locks. Spinning: in waits that the lock tracepoints show, over CPUs x recorded"
        " time. Asleep: the workload's tasks, over its operations (compare.txt says which, and how much"
        " spinning no tracepoint shows). Darker is more."
    )
    if any(by_class(one) is None for one in runs):
        foot += " Hatched: no lock data."
    if any(one.emulated for one in runs):
        foot += " ~ emulated CPUs: times mean little."
    if any(one.run.lossy("locks") for one in runs):
        foot += f" {style.MARKED}"
    return "\n".join(textwrap.wrap(foot, max(characters, 40)))


def render(runs: Runs, tags: Sequence[str], title: str, banners: Sequence[str]) -> tuple[bytes, bytes] | None:
    """The picture as PNG and as SVG; None if no lock was waited on in any run."""
    with style.applied():
        figure = draw(runs, tags, title, banners)
        return None if figure is None else (save.png(figure), save.svg(figure))


def make(source: CompareSource) -> Made:
    """The heat map; nothing if no lock was waited on in any run."""
    pictures = render(source.runs, stacked(source.tags), f"Locks: {source.title}", source.banners)
    if pictures is None:
        return Made()
    png, svg = pictures
    return Made(dict(zip(NAMES, (png, svg), strict=True)), [Drawing(CAPTION, svg)])


NAMES = ("locks_heatmap.png", "locks_heatmap.svg")
OUTPUT = Output("locks_heatmap", 20, NAMES, make)
