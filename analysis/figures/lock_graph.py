# SPDX-License-Identifier: BSD-2-Clause
"""The blocking graph: call paths that waited, the locks they wanted, and who held these; lines as wide as the
time waited.

Three columns, at most TOP_EDGES edges; what is left out is in the title and in the report's table.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from analysis import units
from analysis.figures import style
from analysis.measures.lock_holders import Edge, Holders
from analysis.measures.locks import LockWaits
from analysis.reports.lock_path_content import holder_words
from analysis.reports.lock_words import name

TOP_EDGES = 10
WIDTH_IN = 12.0
LINE_IN = 0.165
GAP_IN = 0.16
COLUMNS = ((0.1, 4.1, 46), (4.9, 2.6, 29), (8.2, 3.7, 42))  # left edge, width (inches), letters a line
DPI = 110
WIDEST_IN = 0.26


def _fold(words: str, letters: int) -> list[str]:
    lines = textwrap.wrap(words, letters, break_on_hyphens=False, subsequent_indent="  ")
    return lines[:4] if len(lines) <= 4 else [*lines[:3], lines[3][: letters - 2] + ".."]


class _Column:
    """Boxes of one column, placed from the top down, each as tall as its text."""

    def __init__(self, left: float, width: float, letters: int) -> None:
        self.left, self.width, self.letters = left, width, letters
        self.lines: dict[str, list[str]] = {}
        self.ns: dict[str, float] = {}
        self.middle: dict[str, float] = {}

    def add(self, key: str, words: Sequence[str], ns: float) -> None:
        """A box, or more weight for it."""
        self.lines.setdefault(key, [line for part in words for line in _fold(part, self.letters)])
        self.ns[key] = self.ns.get(key, 0.0) + ns

    @property
    def height(self) -> float:
        """Of all boxes and gaps, in inches."""
        return sum((len(lines) + 1) * LINE_IN + 0.1 + GAP_IN for lines in self.lines.values())

    def place(self, height: float) -> None:
        """Spread over the height, heaviest first."""
        spare = (height - self.height) / max(len(self.lines), 1)
        y = spare / 2
        for key in sorted(self.lines, key=lambda k: -self.ns[k]):
            size = (len(self.lines[key]) + 1) * LINE_IN + 0.1
            self.middle[key] = y + size / 2
            y += size + GAP_IN + spare

    def draw(self, ax: Axes, color: str) -> None:
        """The boxes, with their time in the last line."""
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


def _draw(found: LockWaits, edges: Sequence[Edge], left_out: float) -> Figure:
    waiters, wanted, held = (_Column(*column) for column in COLUMNS)
    for e in edges:
        row = found.rows[e.row]
        waiters.add(e.waiter, [e.waiter], e.ns)
        wanted.add(str(e.row), [row.type, name(row)], e.ns)
        held.add(holder_words(e) + e.holder, [holder_words(e), *([e.holder] if e.holder else [])], e.ns)
    height = max(c.height for c in (waiters, wanted, held))
    top_in = 0.85
    figure = Figure(figsize=(WIDTH_IN, height + top_in + 0.1))
    FigureCanvasAgg(figure)
    ax = figure.add_axes((0, 0.1 / (height + top_in + 0.1), 1, height / (height + top_in + 0.1)))
    ax.set_xlim(0, WIDTH_IN)
    ax.set_ylim(height, 0)
    ax.axis("off")
    heaviest = max(e.ns for e in edges)
    for column in (waiters, wanted, held):
        column.place(height)
    for e in edges:
        width = e.ns / heaviest * WIDEST_IN
        lock = wanted.middle[str(e.row)]
        _link(ax, waiters.left + waiters.width, waiters.middle[e.waiter], wanted.left, lock, width)
        _link(ax, wanted.left + wanted.width, lock, held.left, held.middle[holder_words(e) + e.holder], width)
    for column, color in ((waiters, "#F3F3F3"), (wanted, "#FBEBC8"), (held, "#E3ECF4")):
        column.draw(ax, color)
    whole = height + top_in + 0.1
    figure.text(
        0.1 / WIDTH_IN, 1 - 0.25 / whole, "Who waits for whom", fontsize=13, fontweight="bold", va="center"
    )
    rest = f"; {units.ns(left_out)} more in narrower edges" if left_out > 0 else ""
    words = f"time waited, by who held the lock when the wait began{rest}"
    figure.text(2.2 / WIDTH_IN, 1 - 0.26 / whole, words, fontsize=9, color=style.QUIET, va="center")
    for column, head in ((waiters, "waits in"), (wanted, "for"), (held, "held by")):
        figure.text(
            column.left / WIDTH_IN, 1 - 0.62 / whole, head, fontsize=10, fontweight="bold", va="center"
        )
    return figure


def render(found: LockWaits, holders: Holders) -> tuple[bytes, bytes] | None:
    """The graph as PNG and SVG; None if no holder was seen."""
    edges = holders.edges[:TOP_EDGES]
    if not edges or not edges[0].ns > 0:
        return None
    with mpl.rc_context(style.RC):  # type: ignore[arg-type]
        figure = _draw(found, edges, sum(e.ns for e in holders.edges[TOP_EDGES:]))
        png, svg = io.BytesIO(), io.BytesIO()
        figure.savefig(png, format="png", dpi=DPI, metadata={"Software": "Seekmeter"})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": "Seekmeter"})
    return png.getvalue(), svg.getvalue()
