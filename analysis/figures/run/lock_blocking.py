# SPDX-License-Identifier: BSD-2-Clause
"""The blocking graph: waiters' call paths, locks and holders, joined by lines as wide as the time waited.

For each lock, the call paths with least time are one box, and so are its holders with least time. The
subtitle says how much time the locks have that are left out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from analysis import units
from analysis.figures import save, style
from analysis.measures.locks.lock_holders import Edge, Holders
from analysis.measures.locks.lock_waits import LockWaits
from analysis.render.output import Drawing, Made, Output, RunSource
from analysis.sections.lock_labels import holder_words, name

CAPTION = "Blocking graph of locks: waiters by call path, locks, holders"
TOP_LOCKS = 4
TOP_ENDS = 8  # boxes of a side, without the boxes of the rest
WIDTH_IN = 12.0
LINE_IN = 0.165
GAP_IN = 0.16
COLUMNS = ((0.1, 4.1, 46), (4.9, 2.6, 29), (8.2, 3.7, 42))  # left edge, width (inches), letters per line
DPI = 110
WIDEST_IN = 0.55  # all lines of the lock with most time
MOST_SPARE_IN = 0.25


def _fold(text: str, letters: int) -> list[str]:
    """At most 4 lines of so many letters."""
    lines = textwrap.wrap(text, letters, break_on_hyphens=False, subsequent_indent="  ")
    return lines[:4] if len(lines) <= 4 else [*lines[:3], lines[3][: letters - 2] + ".."]


class _Column:
    """The boxes of one column from the top down, each as tall as its text."""

    def __init__(self, left: float, width: float, letters: int) -> None:
        self.left, self.width, self.letters = left, width, letters
        self.lines: dict[str, list[str]] = {}
        self.ns: dict[str, float] = {}
        self.middle: dict[str, float] = {}

    def add(self, key: str, parts: Sequence[str], ns: float) -> None:
        """Add a box, or more time to the box of this key."""
        self.lines.setdefault(key, [line for part in parts for line in _fold(part, self.letters)])
        self.ns[key] = self.ns.get(key, 0.0) + ns

    @property
    def height(self) -> float:
        """Height of all boxes and gaps, in inches."""
        return sum((len(lines) + 1) * LINE_IN + 0.1 + GAP_IN for lines in self.lines.values())

    def place(self, height: float) -> None:
        """Spread the boxes over the height, in the order in which they were added."""
        spare = min((height - self.height) / max(len(self.lines), 1), MOST_SPARE_IN)
        y = (height - self.height - spare * (len(self.lines) - 1)) / 2
        for key in self.lines:
            size = (len(self.lines[key]) + 1) * LINE_IN + 0.1
            self.middle[key] = y + size / 2
            y += size + GAP_IN + spare

    def draw(self, ax: Axes, color: str) -> None:
        """Draw the boxes, with their time in the last line."""
        for key, lines in self.lines.items():
            size = (len(lines) + 1) * LINE_IN + 0.1
            top = self.middle[key] - size / 2
            ax.add_patch(
                FancyBboxPatch(
                    (self.left, top),
                    self.width,
                    size,
                    boxstyle="round,pad=0,rounding_size=0.05",
                    fc=color,
                    ec="#777",
                    lw=0.7,
                )
            )
            for i, line in enumerate([*lines, units.ns(self.ns[key])]):
                last = i == len(lines)
                ax.text(
                    self.left + 0.09,
                    top + 0.05 + (i + 0.5) * LINE_IN,
                    line,
                    fontsize=8.2,
                    family="DejaVu Sans Mono",
                    va="center",
                    color=style.QUIET if last else style.INK,
                )


def _link(ax: Axes, x0: float, y0: float, x1: float, y1: float, width_in: float) -> None:
    bend = (x1 - x0) * 0.5
    curve = Path(
        [(x0, y0), (x0 + bend, y0), (x1 - bend, y1), (x1, y1)],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    ax.add_patch(
        PathPatch(
            curve,
            fc="none",
            ec=style.SLEEP,
            lw=max(width_in * 72, 0.6),
            alpha=0.55,
            capstyle="butt",
            zorder=0.5,
        )
    )


Link = tuple[str, str, float]  # key of the lock's box, key of the other box, ns


def _ends(ends: dict[tuple[int, str], float], column: _Column) -> list[Link]:
    """Add the boxes of one side, in the order of the locks; for each lock, those with least time are one."""
    order = sorted(ends.items(), key=lambda item: -item[1])
    shown = {key for key, _ in order[:TOP_ENDS]}
    links: list[Link] = []
    for row in sorted({row for row, _ in ends}):
        rest = [ns for key, ns in order if key[0] == row and key not in shown]
        for (lock, label), ns in order:
            if lock == row and (lock, label) in shown:
                column.add(label, label.split("\n"), ns)
                links.append((str(row), label, ns))
        if sum(rest) > 0:
            column.add(f"others {row}", [f"{len(rest):,} more with less time"], sum(rest))
            links.append((str(row), f"others {row}", sum(rest)))
    return links


def _links(
    ax: Axes, links: list[Link], locks: _Column, others: _Column, scale: float, to_the_right: bool
) -> None:
    """Draw the lines of each lock side by side, in the order of the boxes at their other ends."""
    for lock in locks.middle:
        mine = sorted((link for link in links if link[0] == lock), key=lambda k: others.middle[k[1]])
        y = locks.middle[lock] - sum(ns for _, _, ns in mine) * scale / 2
        for _, other, ns in mine:
            width = ns * scale
            if to_the_right:
                _link(ax, locks.left + locks.width, y + width / 2, others.left, others.middle[other], width)
            else:
                _link(ax, others.left + others.width, others.middle[other], locks.left, y + width / 2, width)
            y += width


def _draw(waits: LockWaits, edges: Sequence[Edge]) -> Figure:
    waiters, locks, holders = (_Column(*column) for column in COLUMNS)
    by_lock: dict[int, float] = {}
    for e in edges:
        by_lock[e.row] = by_lock.get(e.row, 0.0) + e.ns
    shown = sorted(by_lock, key=lambda row: -by_lock[row])[:TOP_LOCKS]
    left: dict[tuple[int, str], float] = {}
    right: dict[tuple[int, str], float] = {}
    for e in edges:
        if e.row in shown:
            left[e.row, e.waiter] = left.get((e.row, e.waiter), 0.0) + e.ns
            who = holder_words(e) + (f"\n{e.holder}" if e.holder else "")
            right[e.row, who] = right.get((e.row, who), 0.0) + e.ns
    for row in sorted(shown):
        locks.add(str(row), [waits.rows[row].type, name(waits.rows[row])], by_lock[row])
    to_left, to_right = _ends(left, waiters), _ends(right, holders)
    height = max(c.height for c in (waiters, locks, holders)) + 0.1
    top_in = 0.85
    whole = height + top_in + 0.1
    figure = Figure(figsize=(WIDTH_IN, whole))
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0.1 / whole, 1, height / whole))
    ax.set_xlim(0, WIDTH_IN)
    ax.set_ylim(height, 0)
    ax.axis("off")
    for column in (waiters, locks, holders):
        column.place(height)
    scale = WIDEST_IN / max(by_lock.values())
    _links(ax, to_left, locks, waiters, scale, False)
    _links(ax, to_right, locks, holders, scale, True)
    for column, color in ((waiters, "#F3F3F3"), (locks, "#FBEBC8"), (holders, "#E3ECF4")):
        column.draw(ax, color)
    left_out = sum(ns for row, ns in by_lock.items() if row not in shown)
    rest = (
        f"; {units.ns(left_out)} more for {len(by_lock) - len(shown):,} other locks" if left_out > 0 else ""
    )
    subtitle = f"time waited, by the holder of the lock when the wait began{rest}"

    def write(x_in: float, y_in: float, text: str, size: float, **more: Any) -> None:
        figure.text(x_in / WIDTH_IN, 1 - y_in / whole, text, fontsize=size, va="center", **more)

    write(0.1, 0.25, "Blocking graph", 13, fontweight="bold")
    write(2.6, 0.26, subtitle, 9, color=style.QUIET)
    for column, head in ((waiters, "waiter"), (locks, "lock"), (holders, "holder")):
        write(column.left, 0.62, head, 10, fontweight="bold")
    return figure


def render(waits: LockWaits, holders: Holders) -> tuple[bytes, bytes] | None:
    """The graph as PNG and SVG; None if no holder was seen."""
    if not holders.edges or not holders.edges[0].ns > 0:
        return None
    with style.applied():
        figure = _draw(waits, holders.edges)
        return save.png(figure, DPI), save.svg(figure)


def make(source: RunSource) -> Made:
    """The graph; nothing for a run without lock waits or without known holders."""
    waits, holders = source.results.locks.waits, source.results.locks.holders
    if waits is None or holders is None or not waits.rows:
        return Made()
    graph = render(waits, holders)
    if graph is None:
        return Made()
    png, svg = graph
    return Made(dict(zip(NAMES, (png, svg), strict=True)), [Drawing(CAPTION, svg)])


NAMES = ("lock_blocking.png", "lock_blocking.svg")
OUTPUT = Output("lock_blocking", 40, NAMES, make)
