# SPDX-License-Identifier: BSD-2-Clause
"""Headlines in the order of the runs, each relative to its configuration's mean; anchors first and last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from analysis.figures import save, style
from analysis.measures.sweep.data import SweepData
from analysis.measures.sweep.drift import FIRST, LAST, MachineDrift, headlines, machine_drifts
from analysis.render.output import Made, Output, SweepSource
from analysis.sections.sweep import show

CAPTION = "Figures in the order of the runs, relative to their configuration's mean"
NAMES = ("sweep_order.png", "sweep_order.svg")
WIDTH_IN, PANEL_IN, HEAD_IN, FOOT_IN = 10.5, 2.9, 0.45, 0.4
MOST_MACHINES = 12
MOST_NAMED = 8  # configurations with a colour of their own
MARKERS = "osD^vPX*"
LABEL_LETTERS = 26
FOOT = (
    "Above 1: better than the configuration's mean. Bands: blocks, each with every configuration once,"
    " shuffled.\nDiamonds: the anchor run, last relative to first. Lines: the slope within"
    " blocks, where the drift is sure (p < 0.05)."
)


def _draw_blocks(ax: Axes, frame: pd.DataFrame) -> None:
    for number, (_, block) in enumerate(frame.groupby("block", sort=True)):
        if number % 2 == 0:
            ax.axvspan(block.order.min() - 0.5, block.order.max() + 0.5, color=style.PHASE_BANDS[0], zorder=0)


def _draw_runs(ax: Axes, data: SweepData, frame: pd.DataFrame) -> list[Line2D]:
    """The points, and their legend."""
    handles = []
    present = set(frame.configuration)
    for number, one in enumerate(c for c in data.sweep.configurations if c.id in present):
        own = frame[frame.configuration == one.id]
        color = style.LOCKS[number] if number < MOST_NAMED else style.OTHER_LOCKS
        marker = MARKERS[number] if number < MOST_NAMED else "o"
        ax.plot(own.order, own.relative, marker, color=color, markersize=5.5, alpha=0.85, zorder=3)
        if number <= MOST_NAMED:
            label = one.label if number < MOST_NAMED else "other configurations"
            label = label if len(label) <= LABEL_LETTERS else label[: LABEL_LETTERS - 3] + "..."
            handles.append(Line2D([], [], color=color, marker=marker, linestyle="", label=label))
    return handles


def _draw_anchors(ax: Axes, data: SweepData, one: MachineDrift) -> None:
    """The anchors at their places: 1 for the first, for the last its ratio to it, above 1 is better."""
    if one.anchors is None:
        return
    ratio = one.anchors.ratio
    if ratio and one.anchors.better == "lower":
        ratio = 1 / ratio
    for task in data.sweep.tasks:
        if task.is_anchor and task.machine == one.machine and task.outcome == "done":
            y = 1.0 if task.task.startswith(FIRST) else ratio if task.task.startswith(LAST) else None
            if y is not None:
                ax.plot([task.order], [y], "d", color=style.ALARM, markersize=9, fillstyle="none", zorder=4)


def _draw_machine(ax: Axes, data: SweepData, one: MachineDrift) -> None:
    frame = headlines(data, one.machine)
    _draw_blocks(ax, frame)
    ax.axhline(1, color=style.QUIET, linewidth=0.8, zorder=1)
    handles = _draw_runs(ax, data, frame)
    _draw_anchors(ax, data, one)
    slope = one.drift.per_run_pct
    if one.is_sure and slope is not None:
        for _, block in frame.groupby("block"):
            x = np.array([block.order.min(), block.order.max()], dtype=float)
            y = block.relative.mean() + slope / 100 * (x - block.order.mean())
            ax.plot(x, y, color=style.ALARM, linewidth=1.6, zorder=4)
    told = f"drift {slope:+.2f} % a run, p {show.p(one.p)}" if slope is not None else one.drift.why
    ax.set_title(f"{show.machine(data, one.machine)}: {told}")
    ax.set_ylabel("relative to mean")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(True, axis="y")
    handles.append(
        Line2D([], [], color=style.ALARM, marker="d", fillstyle="none", linestyle="", label="anchor")
    )
    ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1.02))


def draw(data: SweepData, title: str, banners: Sequence[str]) -> Figure | None:
    """A panel a machine; None before two runs are done."""
    drifts = [one for one in machine_drifts(data) if one.runs > 1][:MOST_MACHINES]
    if not drifts:
        return None
    height_in = HEAD_IN + FOOT_IN + PANEL_IN * len(drifts)
    figure = Figure(figsize=(WIDTH_IN, height_in))
    figure.text(0.02, 1 - 0.3 / height_in, f"{title}: order of runs", fontsize=14, weight="bold", va="center")
    for number, one in enumerate(drifts):
        bottom_in = height_in - HEAD_IN - PANEL_IN * (number + 1) + 0.55
        box = (0.085, bottom_in / height_in, 0.685, (PANEL_IN - 0.95) / height_in)
        _draw_machine(figure.add_axes(box), data, one)
    figure.axes[-1].set_xlabel("order of the run on its machine")
    figure.text(0.02, 0.1 / height_in, FOOT, fontsize=7.2, color=style.QUIET, va="bottom", linespacing=1.35)
    return figure


def make(source: SweepSource) -> Made:
    """The picture as PNG and SVG; nothing before two runs are done."""
    with style.applied():
        return save.made(draw(source.data, source.title, source.banners), NAMES, CAPTION)


OUTPUT = Output("by_order", 20, NAMES, make)
