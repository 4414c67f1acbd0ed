# SPDX-License-Identifier: BSD-2-Clause
"""Scaling: throughput against threads, CPUs or tasks, with the law's curve; below it the residuals.

A panel per axis and unit. Lines differ in marker, dash and lightness: the picture is readable in grey.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.figures import save, style
from analysis.figures.axes import from_zero, number
from analysis.measures.scaling.lines import find_lines
from analysis.measures.scaling.scaling import Scaling, measure_scaling
from analysis.measures.sweep.data import SweepData
from analysis.render.output import Made, Output, SweepSource
from analysis.sections.sweep import show

CAPTION = "Throughput against threads, CPUs or tasks: all runs, means with 95 % intervals, the law's curve"
NAMES = ("scaling.png", "scaling.svg")
WIDTH_IN = 10.5
PANEL_IN, RESIDUALS_IN, BETWEEN_IN = 3.6, 0.9, 0.85
HEAD_IN, FOOT_IN = 0.6, 0.6
LEFT, RIGHT = 0.085, 0.70  # of the width; the legend is to the right
BESIDE = 1.03  # where the runs stand beside their mean, in N
MOST_ABOVE = 1.6  # of the highest run: longer intervals are cut
MOST_LINES = 8  # of one panel
MOST_PANELS = 6
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
COLORS = ("#1B1B1B", "#D9822B", "#0B5E9E", "#8FC1A9", "#B2312A", "#C3A6D8", "#1B7A5A", "#E6C229")
DASHES: tuple[style.Dash, ...] = ("-", (0, (5.0, 1.5)), (0, (2.0, 1.0)), (0, (1.0, 1.0)))
FOOT = (
    "Small, at the right: one run each. Large: mean; bar: its 95 % interval (Student t). Curve: Universal"
    " Scalability Law, where it fits; dotted: means, where it does not.\nRing: saturation. Vertical line: the"
    " law's peak, its 95 % interval shaded. Below: mean over the law. Definitions: sweep.txt."
)


def draw(data: SweepData, title: str, banners: Sequence[str]) -> Figure | None:
    """The whole picture; None without a line that has throughput."""
    panels: dict[tuple[str, str, str], list[Scaling]] = {}
    for line in find_lines(data.frame):
        if not line.why:
            panels.setdefault((line.axis, line.measure, line.unit), []).append(measure_scaling(line))
    shown = list(panels.items())[:MOST_PANELS]
    if not shown:
        return None
    head_in = HEAD_IN + 0.2 * len(banners)
    each_in = PANEL_IN + RESIDUALS_IN + BETWEEN_IN
    height_in = head_in + FOOT_IN + each_in * len(shown)
    figure = Figure(figsize=(WIDTH_IN, height_in))
    figure.text(0.02, 1 - 0.3 / height_in, title, fontsize=14, weight="bold", color=style.INK, va="center")
    for i, banner in enumerate(banners):
        y = 1 - (0.6 + 0.2 * i) / height_in
        figure.text(0.02, y, banner[:150], fontsize=8.5, weight="bold", color=style.ALARM, va="center")
    for i, ((axis, measure, unit), lines) in enumerate(shown):
        top_in = head_in + i * each_in + 0.35

        def place(from_in: float, tall_in: float) -> Axes:
            bottom = 1 - (from_in + tall_in) / height_in
            return figure.add_axes((LEFT, bottom, RIGHT - LEFT, tall_in / height_in))

        upper, lower = place(top_in, PANEL_IN - 0.35), place(top_in + PANEL_IN - 0.12, RESIDUALS_IN)
        upper.set_title(f"{show.heading(measure, unit)}, by {axis}")
        _draw_lines(upper, lower, lines[:MOST_LINES])
        lower.set_xlabel(axis)
        if len(lines) > MOST_LINES:
            upper.text(
                1.02, 0, f"{len(lines) - MOST_LINES} more lines:\nsweep.txt", transform=upper.transAxes
            )
    figure.text(0.02, 0.1 / height_in, FOOT, fontsize=7.2, color=style.QUIET, va="bottom", linespacing=1.35)
    return figure


def _draw_lines(upper: Axes, lower: Axes, lines: Sequence[Scaling]) -> None:
    counts = sorted({point.n for one in lines for point in one.points})
    handles = []
    for i, one in enumerate(lines):
        color, marker, dash = COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)]
        _draw_line(upper, one, color, marker, dash)
        if one.law.residuals:
            residuals, n = np.asarray(one.law.residuals), one.line.n
            means = [100 * np.expm1(residuals[n == count].mean()) for count in np.unique(n)]
            lower.plot(np.unique(n), means, color=color, marker=marker, ms=4, lw=0.8, ls=dash)
        handles.append(Line2D([], [], color=color, marker=marker, linestyle=dash, label=_label(one)))
    highest = max(float(one.line.x.max()) for one in lines)
    ends = [
        point.throughput.interval.high for one in lines for point in one.points if point.throughput.interval
    ]
    top = min(max([highest, *ends]), MOST_ABOVE * highest)
    from_zero(upper, top, 5)
    upper.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1.02), handlelength=2.6, labelspacing=0.9
    )
    lower.axhline(0, color=style.QUIET, lw=0.7)
    lower.set_ylabel("over the law, %", fontsize=8)
    for ax in (upper, lower):
        ax.set_xscale("log", base=2)
        ax.set_xlim(counts[0] / 1.15, counts[-1] * 1.15)
        ax.xaxis.set_major_locator(FixedLocator(_ticks(counts)))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(number))
        ax.grid(True)
    upper.tick_params(axis="x", labelbottom=False)


def _ticks(counts: Sequence[int]) -> list[int]:
    """The measured N, without those whose labels would touch."""
    ticks: list[int] = []
    for count in counts:
        if not ticks or count >= ticks[-1] * (counts[-1] / counts[0]) ** 0.035:
            ticks.append(count)
    return ticks


def _draw_line(ax: Axes, one: Scaling, color: str, marker: str, dash: style.Dash) -> None:
    ax.scatter(one.line.n * BESIDE, one.line.x, s=9, color=color, alpha=0.45, linewidths=0, zorder=3)
    n = np.array([point.n for point in one.points], dtype=np.float64)
    means = np.array([point.throughput.mean for point in one.points])
    halves = np.array([point.throughput.half_width or 0.0 for point in one.points])
    ax.errorbar(n, means, yerr=halves, fmt=marker, ms=6, color=color, lw=1.3, capsize=3, zorder=4)
    if one.law.fitted:
        curve = np.geomspace(n[0], n[-1], 200)
        ax.plot(curve, one.law.at(curve), color=color, lw=1.4, ls=dash, zorder=2)
    else:
        ax.plot(n, means, color=color, lw=1.0, ls=(0, (1, 2)), zorder=2)
    if one.law.peak is not None and one.law.peak_interval is not None:
        ax.axvspan(one.law.peak_interval.low, one.law.peak_interval.high, color=color, alpha=0.10, lw=0)
        ax.axvline(one.law.peak, color=color, lw=0.8, ls=dash)
    if one.saturation.n is not None and one.saturation.first == one.saturation.n:
        mean = next(point.throughput.mean for point in one.points if point.n == one.saturation.n)
        ax.plot([one.saturation.n], [mean], marker="o", ms=14, mfc="none", mec=color, mew=1.2, zorder=5)


def _label(one: Scaling) -> str:
    """Name, and below it what the fit says."""
    name = one.line.name if len(one.line.name) <= 34 else one.line.name[:31] + "..."
    law = one.law
    if not law.fitted:
        return "\n".join([name, *textwrap.wrap(f"no fit: {law.why}", 36)])
    peak = f", peak at {law.peak:.3g}" if law.peak is not None else ""
    return f"{name}\nalpha {law.alpha:.2g}, beta {law.beta:.2g}{peak}"


def make(source: SweepSource) -> Made:
    """The picture as PNG and SVG; nothing without a line."""
    with style.applied():
        return save.made(draw(source.data, f"{source.title}: scaling", source.banners), NAMES, CAPTION)


OUTPUT = Output("scaling", 30, NAMES, make)
