# SPDX-License-Identifier: BSD-2-Clause
"""The headline by configuration: every run as a point, the mean with its 95 % interval, a panel a group."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from analysis.figures import save, style
from analysis.measures.statistics.differences import Difference
from analysis.measures.sweep.data import Group, SweepData
from analysis.measures.sweep.ranking import Ranking
from analysis.render.output import Made, Output, SweepSource
from analysis.sections.sweep import show

CAPTION = "Headline figure by configuration: all runs, mean and 95 % interval"
NAMES = ("sweep.png", "sweep.svg")
WIDTH_IN = 10.5
ROW_IN = 0.34
HEAD_IN, PANEL_IN, FOOT_IN = 0.55, 0.8, 0.45  # above all; title and axis of a panel; below all
RIGHT = 0.80  # of the width: n and ratio are to the right of it
LETTER_IN = 0.076  # of a label
LABEL_LETTERS = 42
BANNER_LETTERS = 125  # of a line
MOST_ROWS = 60  # configurations of one panel
MOST_PANELS = 24
FOOT = (
    "Dots: one run each. Bar: mean; line: 95 % interval of the mean (Student t). Best configuration"
    " first.\nRight: runs, ratio to the best; ! they differ by the rule (intervals apart and 10 %)."
    " Definitions: sweep.txt."
)


def _title(data: SweepData, group: Group, ranking: Ranking) -> str:
    name = show.group(data, group)
    what = f"{show.heading(ranking.measure, ranking.unit)} ({show.better(ranking.better)})"
    return f"{name}: {what}" if name else what


def _short(text: str) -> str:
    return text if len(text) <= LABEL_LETTERS else text[: LABEL_LETTERS - 3] + "..."


def _draw_panel(ax: Axes, ranking: Ranking) -> None:
    rows = ranking.rows[:MOST_ROWS]
    for y, row in enumerate(rows):
        about = row.description
        color = style.READ if y == 0 and ranking.better else style.JOURNAL
        spread = np.linspace(-0.16, 0.16, len(row.values)) if len(row.values) > 1 else np.zeros(1)
        ax.scatter(
            row.values, y + spread, s=22, color=color, alpha=0.7, linewidths=0, zorder=6, clip_on=False
        )
        if about.interval is not None:
            ax.plot(
                [about.interval.low, about.interval.high], [y, y], color=style.INK, linewidth=1.3, zorder=4
            )
        ax.plot([about.mean] * 2, [y - 0.27, y + 0.27], color=style.INK, linewidth=2.2, zorder=5)
        ax.text(1.02, y, f"n={row.n}", transform=ax.get_yaxis_transform(), va="center", fontsize=8.5)
        ax.text(1.10, y, _told(row.against, y), transform=ax.get_yaxis_transform(), va="center", fontsize=8.5)
    ax.set_yticks(range(len(rows)), [_short(row.configuration.label) for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(True, axis="x")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    ax.tick_params(axis="y", length=0)


def _told(against: Difference | None, y: int) -> str:
    if against is None:
        return "best" if y == 0 else "not judged"
    text = show.ratio(against.ratio)
    if against.ratio_interval is not None:
        text += f" {show.interval(against.ratio_interval)}"
    return f"{text} !" if against.rule else text


def draw(data: SweepData, title: str, banners: Sequence[str]) -> Figure | None:
    """The whole picture; None without a figure."""
    shown = [group for group in data.groups if group.ranking.rows][:MOST_PANELS]
    if not shown:
        return None
    counts = [min(len(group.ranking.rows), MOST_ROWS) for group in shown]
    lines = [line for banner in banners for line in textwrap.wrap(banner, BANNER_LETTERS)]
    head_in = HEAD_IN + 0.2 * len(lines)
    height_in = head_in + FOOT_IN + sum(PANEL_IN + ROW_IN * count for count in counts)
    figure = Figure(figsize=(WIDTH_IN, height_in))
    figure.text(0.02, 1 - 0.3 / height_in, title, fontsize=14, weight="bold", color=style.INK, va="center")
    for i, line in enumerate(lines):
        y = 1 - (0.6 + 0.2 * i) / height_in
        figure.text(0.02, y, line, fontsize=8.5, weight="bold", color=style.ALARM, va="center")
    letters = max(len(_short(row.configuration.label)) for group in shown for row in group.ranking.rows)
    left = max((0.4 + LETTER_IN * letters) / WIDTH_IN, 0.06)
    y_in = head_in
    for group, count in zip(shown, counts, strict=True):
        tall = ROW_IN * count
        y_in += 0.42 + tall
        ax = figure.add_axes((left, 1 - y_in / height_in, RIGHT - left, tall / height_in))
        ax.set_title(_title(data, group, group.ranking), x=-(left - 0.02) / (RIGHT - left))
        _draw_panel(ax, group.ranking)
        _limits(ax, [one.ranking for one in shown if _scale(one) == _scale(group)])
        y_in += PANEL_IN - 0.42
    figure.text(0.02, 0.1 / height_in, FOOT, fontsize=7.2, color=style.QUIET, va="bottom", linespacing=1.35)
    return figure


def _scale(group: Group) -> tuple[str, str, str, bool]:
    """Groups in which this is equal share one scale."""
    return group.wl, group.ranking.measure, group.ranking.unit, group.virtual


def _limits(ax: Axes, rankings: Sequence[Ranking]) -> None:
    """From 0 where all values are on one side of it, so that lengths compare."""
    rows = [row for ranking in rankings for row in ranking.rows]
    values = [value for row in rows for value in row.values]
    ends = [end for row in rows if (i := row.description.interval) for end in (i.low, i.high)]
    low, high = min(values), max([*values, *ends])
    if low >= 0:
        ax.set_xlim(0, high * 1.05 or 1)
    elif high <= 0:
        ax.set_xlim(low * 1.05, 0)


def make(source: SweepSource) -> Made:
    """The picture as PNG and SVG; nothing without a figure."""
    with style.applied():
        return save.made(draw(source.data, source.title, source.banners), NAMES, CAPTION)


OUTPUT = Output("by_configuration", 10, NAMES, make)
