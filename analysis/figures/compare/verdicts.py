# SPDX-License-Identifier: BSD-2-Clause
"""Verdicts as a forest plot: each figure's ratio with its 95 % interval, worse to the right of 1.

A figure of which more is better is turned over (first / other), so that one direction means one thing. The
marker's shape has the verdict, which is readable without colour; the band is the margin.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from analysis.figures import save, style
from analysis.measures.compare.verdicts import (
    BETTER,
    CANNOT_TELL,
    MARGIN_PCT,
    NOT_SEEN,
    SMALL,
    WORSE,
    Verdict,
    Verdicts,
)
from analysis.render.output import CompareSource, Drawing, Made, Output
from analysis.sections.compare.verdict_tables import SHORT, factor, interest, name_of, sentence, show

CAPTION = "Ratio of each figure with its 95 % interval, worse to the right"
MOST_ROWS = 40
LEAST_RATIO, MOST_RATIO = 1e-3, 1e3  # drawn; what is beyond has an arrow at the edge
NAME_CHARACTERS = 46
# Verdict: marker, fill, colour. Shape and fill tell them apart in greyscale.
MARKS = {
    WORSE: (">", style.ALARM, style.ALARM),
    BETTER: ("<", "white", style.READ),
    SMALL: ("D", style.QUIET, style.QUIET),
    NOT_SEEN: ("o", style.QUIET, style.QUIET),
    CANNOT_TELL: ("x", style.QUIET, style.QUIET),
}
NAMES_IN, PLOT_IN, VALUES_IN = 3.7, 4.2, 2.5
ROW_IN, HEAD_IN, FOOT_IN, BANNER_IN = 0.24, 0.62, 0.95, 0.2


@dataclass(frozen=True)
class Row:
    """One figure: how many times worse the other side is, with its interval (below 1: better)."""

    verdict: Verdict
    worse: float
    low: float | None
    high: float | None


def rows_of(verdicts: Verdicts) -> list[Row]:
    """The figures that have a ratio and a test, in the order of the tables."""
    rows = []
    for one in sorted(verdicts.verdicts, key=interest):
        difference = one.difference
        if difference is None or one.p is None or not difference.ratio or difference.ratio < 0:
            continue
        interval, is_turned = difference.ratio_interval, one.figure.better == "higher"
        low, high = (interval.low, interval.high) if interval is not None else (None, None)
        if is_turned:
            low, high = _turned(high), _turned(low)
        rows.append(Row(one, 1 / difference.ratio if is_turned else difference.ratio, low, high))
    return rows


def _turned(bound: float | None) -> float | None:
    """1 / bound; of a ratio that may be 0, there is none."""
    return 1 / bound if bound is not None and bound > 0 else None


def draw(rows: Sequence[Row], more: int, title: str, said: str, banners: Sequence[str]) -> Figure:
    """The whole picture. more: how many rows are left out. said: the overall verdict."""
    width_in = NAMES_IN + PLOT_IN + VALUES_IN
    lines = [(style.INK, line) for line in textwrap.wrap(f"Verdict: {said}", int(width_in / 0.075))[:3]]
    for banner in banners[:2]:
        lines += [(style.ALARM, line) for line in textwrap.wrap(f"! {banner}", int(width_in / 0.075))[:2]]
    if len(banners) > 2:
        lines.append((style.ALARM, f"and {len(banners) - 2} more, see compare.txt"))
    plot_in, head_in = ROW_IN * len(rows) + 0.1, HEAD_IN + BANNER_IN * len(lines)
    height_in = head_in + plot_in + FOOT_IN
    figure = Figure(figsize=(width_in, height_in))
    FigureCanvasAgg(figure)
    left = 0.12 / width_in
    figure.text(left, 1 - 0.25 / height_in, title, fontsize=12.5, weight="bold", color=style.INK, va="center")
    for i, (color, line) in enumerate(lines):
        y = 1 - (0.52 + BANNER_IN * i) / height_in
        figure.text(left, y, line, fontsize=8.5, color=color, weight="bold", va="center")
    ax = figure.add_axes((NAMES_IN / width_in, FOOT_IN / height_in, PLOT_IN / width_in, plot_in / height_in))
    several = len({(row.verdict.pair.first, row.verdict.pair.other) for row in rows}) > 1
    _draw_axes(ax, rows, [_label(row, several) for row in rows])
    for y, row in enumerate(rows):
        _draw_row(ax, y, row)
    foot = (
        "Ratio of the other side to the first; turned over where more is better, so that right is worse."
        f" Bar: 95 % interval (Fieller). Band: {MARGIN_PCT:.0f} %. Bold: headline figures."
        " Right: first mean, other mean, verdict. compare.txt has the definitions."
    )
    foot += f" {more:,} more figures in compare.json." if more else ""
    wrapped = "\n".join(textwrap.wrap(foot, int(width_in / 0.062)))
    figure.text(left, 0.1 / height_in, wrapped, fontsize=7.2, color=style.QUIET, va="bottom", linespacing=1.3)
    return figure


def _draw_axes(ax: Axes, rows: Sequence[Row], names: Sequence[str]) -> None:
    known = [row.worse for row in rows]
    for row in rows:
        if row.verdict.word != CANNOT_TELL:  # such a wide interval may end at the edge
            known += [bound for bound in (row.low, row.high) if bound is not None]
    low = max(min([*known, 0.8]) / 1.05, LEAST_RATIO)
    high = min(max([*known, 1.25]) * 1.05, MOST_RATIO)
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.axvspan(1 / (1 + MARGIN_PCT / 100), 1 + MARGIN_PCT / 100, color=style.GRID, linewidth=0)
    ax.axvline(1, color=style.INK, linewidth=0.8)
    ax.grid(True, axis="x")
    if high / low < 10:
        near = (0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
        wide = high / low > 2.5
        ticks = [tick for tick in near if low <= tick <= high and not (wide and tick in (0.9, 1.1))]
        ax.xaxis.set_major_locator(FixedLocator(ticks))
    else:
        ax.xaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5) if high / low < 200 else (1,)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("better   <   times the first side   >   worse")
    ax.set_yticks(range(len(rows)), names, fontsize=8)
    ax.tick_params(axis="y", length=0)
    for label, row in zip(ax.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if row.verdict.figure.is_headline else "normal")


def _label(row: Row, has_side: bool) -> str:
    """The row's name, and the other side if there are several; the middle of a long one is left out."""
    pair = row.verdict.pair
    side = pair.other if len(pair.other) <= 5 else f"{pair.other[0]}..{pair.other[-1]}"
    name = name_of(row.verdict.figure, pair.where) + (f" ({side})" if has_side else "")
    half = (NAME_CHARACTERS - 3) // 2
    return name if len(name) <= NAME_CHARACTERS else f"{name[:half]}...{name[-half:]}"


def _draw_row(ax: Axes, y: int, row: Row) -> None:
    marker, fill, color = MARKS[row.verdict.word]
    low, high = ax.get_xlim()
    start, end = (row.low or low), (row.high if row.high is not None else high)
    width = 2.0 if row.verdict.figure.is_headline else 1.2
    ax.plot([max(start, low), min(end, high)], [y, y], color=color, linewidth=width, solid_capstyle="butt")
    at = min(max(row.worse, low), high)
    ax.plot([at], [y], marker=marker, color=color, markerfacecolor=fill, markersize=6, clip_on=False)
    difference = row.verdict.difference
    assert difference is not None
    means = [show(row.verdict.figure, mean.value) for mean in (difference.first, difference.other)]
    word = SHORT.get(row.verdict.word, row.verdict.word)
    text = f"{means[0]}, {means[1]}  {word}"
    if not math.isclose(at, row.worse):
        text += f" ({factor(row.worse)} times)"
    weight = "bold" if row.verdict.word in (WORSE, BETTER) else "normal"
    ax.annotate(
        text, (1, y), (8, 0), xycoords=ax.get_yaxis_transform(), textcoords="offset points", fontsize=7.8,
        va="center", color=style.INK, weight=weight, annotation_clip=False,
    )  # fmt: skip


def render(verdicts: Verdicts, title: str, banners: Sequence[str]) -> tuple[bytes, bytes] | None:
    """The picture as PNG and as SVG; None if no figure has a ratio and a test."""
    rows = rows_of(verdicts)
    if not rows:
        return None
    with style.applied():
        figure = draw(rows[:MOST_ROWS], len(rows) - MOST_ROWS if len(rows) > MOST_ROWS else 0,
                      title, sentence(verdicts), banners)  # fmt: skip
        return save.png(figure), save.svg(figure)


def make_picture(verdicts: Verdicts, title: str, banners: Sequence[str]) -> Made:
    """The forest plot; nothing if no figure has a ratio and a test."""
    pictures = render(verdicts, f"Verdicts: {title}", banners)
    if pictures is None:
        return Made()
    return Made(dict(zip(NAMES, pictures, strict=True)), [Drawing(CAPTION, pictures[1])])


def make(source: CompareSource) -> Made:
    """The verdicts on the compared runs."""
    return make_picture(source.verdicts, source.title, source.banners)


NAMES = ("verdicts.png", "verdicts.svg")
OUTPUT = Output("verdicts", 5, NAMES, make)
