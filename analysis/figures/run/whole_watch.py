# SPDX-License-Identifier: BSD-2-Clause
"""The whole watch of a run with UNTIL=, a second a step: requests, bytes, latency; the kept window shaded."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.figures import save, style
from analysis.figures.axes import from_zero, log_times, number, time_tick
from analysis.measures.common.timeline import F64
from analysis.render.output import Drawing, Made, Output, RunSource
from analysis.rundir.flight import Flight, flight
from analysis.tables import second
from analysis.tables.second import Second

CAPTION = "The whole watch, second by second, with the kept window shaded"
NAMES = ("whole_watch.png", "whole_watch.svg")
STEPS_MOST = 1600  # more seconds than this are drawn together, as their mean, the latency as its highest
WIDTH_IN, PANEL_IN, GAP_IN, HEAD_IN, FOOT_IN, LEFT_IN, RIGHT_IN = 9.8, 0.8, 0.34, 0.35, 0.5, 0.85, 0.3
MINUTES_FROM_S, HOURS_FROM_S = 600.0, 3 * 3600.0
DPI = 110
WINDOW = "#F6D9A6"


def draw(rows: Second, kept: Flight) -> Figure:
    """Three panels over the watch's time. 0: the window's begin, as in the other pictures."""
    edges_s, groups = _steps(rows, kept.from_ns)
    lengths_s = np.add.reduceat(rows.length_ns, groups) / 1e9
    requests = np.add.reduceat(rows.reads + rows.writes, groups) / lengths_s
    mb_s = np.add.reduceat(rows.read_bytes + rows.write_bytes, groups) / 1e6 / lengths_s
    longest_ns = np.maximum.reduceat(rows.max_q2c_ns, groups).astype(float)
    height_in = HEAD_IN + 3 * (PANEL_IN + GAP_IN) + FOOT_IN
    figure = Figure(figsize=(WIDTH_IN, height_in))
    FigureCanvasAgg(figure)
    figure.text(LEFT_IN / WIDTH_IN, 1 - 0.22 / height_in, "The whole watch", fontsize=13, fontweight="bold")
    panels: list[Axes] = []
    for i, title in enumerate(("Requests/s", "MB/s", "Longest request, queue to completion")):
        bottom_in = HEAD_IN + (i + 1) * (PANEL_IN + GAP_IN)
        box = (
            LEFT_IN / WIDTH_IN,
            1 - bottom_in / height_in,
            1 - (LEFT_IN + RIGHT_IN) / WIDTH_IN,
            PANEL_IN / height_in,
        )
        ax = figure.add_axes(box, sharex=panels[0] if panels else None)
        ax.set_title(title, loc="left", fontsize=9.5)
        ax.tick_params(labelbottom=i == 2)
        ax.axvspan(0, (kept.to_ns - kept.from_ns) / 1e9, color=WINDOW, lw=0, zorder=0)
        if kept.fired_ns is not None:
            ax.axvline((kept.fired_ns - kept.from_ns) / 1e9, color=style.INK, lw=0.9, ls=style.DASHED)
        panels.append(ax)
    for ax, values in zip(panels, (requests, mb_s), strict=False):
        _steps_line(ax, values, edges_s, 0.0)
        from_zero(ax, float(values.max(initial=0.0)), 3)
    _draw_latency(panels[2], longest_ns, edges_s)
    panels[0].set_xlim(edges_s[0], edges_s[-1])
    _time_axis(panels[2], float(edges_s[-1] - edges_s[0]))
    return figure


def _steps(rows: Second, zero_ns: int) -> tuple[F64, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Edges of the steps in seconds, and the first row of each."""
    together = -(-rows.t_ns.size // STEPS_MOST)
    groups = np.arange(0, rows.t_ns.size, together)
    last = np.append(groups[1:] - 1, rows.t_ns.size - 1)
    ends = (rows.t_ns[last] - zero_ns) / 1e9
    first = (rows.t_ns[0] - rows.length_ns[0] - zero_ns) / 1e9
    return np.maximum.accumulate(np.append(first, ends)), groups


def _draw_latency(ax: Axes, longest_ns: F64, edges_s: F64) -> None:
    seen = longest_ns[longest_ns > 0]
    if not seen.size:
        from_zero(ax, 0.0)
        return
    low, high = float(seen.min()) / 2, float(seen.max()) * 2
    log_times(ax, low, high)
    ax.yaxis.set_major_formatter(FuncFormatter(time_tick))
    heights = np.where(longest_ns > 0, longest_ns, np.nan)
    _steps_line(ax, heights, edges_s, low)


def _steps_line(ax: Axes, values: F64, edges_s: F64, base: float) -> None:
    """A line over a light area, through which the shade of the window can be seen."""
    ax.stairs(values, edges_s, baseline=base, fill=True, color=style.DEPTH, alpha=0.25, lw=0)
    ax.stairs(values, edges_s, baseline=None, color=style.DEPTH, lw=1.1)


def _time_axis(ax: Axes, length_s: float) -> None:
    """Seconds, or of long watches minutes or hours, with round ticks."""
    unit, factor = "s", 1.0
    if length_s >= HOURS_FROM_S:
        unit, factor = "h", 3600.0
    elif length_s >= MINUTES_FROM_S:
        unit, factor = "min", 60.0
    left, right = (edge / factor for edge in ax.get_xlim())
    ticks = [
        tick
        for tick in MaxNLocator(9, steps=[1, 2, 2.5, 5, 10]).tick_values(left, right)
        if left <= tick <= right
    ]
    ax.set_xticks([tick * factor for tick in ticks])
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: ("-" if value < 0 else "") + number(value / factor))
    )
    ax.set_xlabel(f"{unit} from the kept window's begin (shaded; dashed: the trigger)", fontsize=9)


def make(source: RunSource) -> Made:
    """The picture; nothing of a run that no trigger has kept."""
    kept, rows = flight(source.run), source.tables.get(second.TABLE)
    if kept is None or rows is None or rows.t_ns.size < 2 or not (rows.length_ns > 0).all():
        return Made()
    with style.applied():
        figure = draw(rows, kept)
        png, svg = save.png(figure, DPI), save.svg(figure)
    return Made(dict(zip(NAMES, (png, svg), strict=True)), [Drawing(CAPTION, svg, section="kept_window")])


OUTPUT = Output("whole_watch", 15, NAMES, make)
