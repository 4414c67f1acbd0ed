# SPDX-License-Identifier: BSD-2-Clause
"""Axes, tick labels and legends that the panels share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from analysis.figures import style
from analysis.measures.common.timeline import F64

Handle = Line2D | Patch
LEAST_IN_LEGEND = 0.01  # of a stack's highest value


@dataclass(frozen=True)
class Look:
    """How an area of a stack is drawn."""

    label: str
    color: str
    hatch: str | None


def any_finite(values: F64) -> bool:
    """True if at least one value is not NaN."""
    return bool(np.isfinite(values).any())


def legend(ax: Axes, handles: list[Handle], title: str = "", right: float = 1.02) -> None:
    """A legend at the right of the panel, never on the data. right: its left edge, in panel widths."""
    if not handles:
        return
    box = ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(right, 1.04), title=title or None)
    box.get_title().set_fontsize(8.5)
    box._legend_box.align = "left"  # type: ignore[attr-defined]


def legend_in(entries: int) -> float:
    """Height in inches that a panel needs beside a legend, which may reach into the gap below it."""
    return 0.148 * entries - 0.08


def stack(ax: Axes, edges: F64, series: Mapping[str, F64], looks: Mapping[str, Look]) -> list[Handle]:
    """Areas upon each other, in the order of `series`; legend entries from the top, of what can be seen."""
    base = np.zeros(edges.size - 1)
    highest = float(np.sum(list(series.values()), axis=0).max(initial=0.0)) if series else 0.0
    handles: list[Handle] = []
    for key, values in series.items():
        look, top = looks[key], base + values
        ink = style.QUIET if look.hatch else look.color
        ax.stairs(top, edges, baseline=base, fill=True, fc=look.color, ec=ink, hatch=look.hatch, lw=0)
        # a white edge: in greyscale, neighbours may be equally dark
        ax.stairs(base, edges, baseline=None, color="white", lw=0.4)
        if values.max(initial=0.0) >= LEAST_IN_LEGEND * highest:
            handles.append(Patch(label=look.label, fc=look.color, ec=ink, hatch=look.hatch, lw=0))
        base = top
    from_zero(ax, highest, 3)
    return handles[::-1]


def legend_line(color: str, label: str, width: float = 1.4, dash: style.Dash = "-") -> Line2D:
    """A legend entry for a line."""
    return Line2D([], [], color=color, linewidth=width, linestyle=dash, label=label)


def say_empty(ax: Axes, reason: str) -> None:
    """Write the reason into a panel that has nothing to draw."""
    ax.set_facecolor("#F4F4F4")
    ax.set_yticks([])
    ax.grid(False)
    ax.text(0.5, 0.5, reason, transform=ax.transAxes, ha="center", va="center", color=style.QUIET, wrap=True)


def number(value: float, _: object = None) -> str:
    """Tick label: thousands separated, without sign, as an axis may point both ways."""
    return f"{abs(value):,.10g}"


def time_tick(value: float, _: object = None) -> str:
    """Tick label of a time in ns: 500 µs."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if value >= factor * 0.999:
            return f"{value / factor:,.4g} {unit}"
    return f"{value:.4g} ns"


def from_zero(ax: Axes, top: float, ticks: int = 4) -> None:
    """A linear axis from 0 to a little above `top`, with round ticks; "none" in the panel if top is 0."""
    ax.set_ylim(0, top * 1.08 if top > 0 else 1)
    if not top > 0:
        ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", va="center", color=style.QUIET)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(number))


def log_times(ax: Axes, low_ns: float, high_ns: float) -> None:
    """A logarithmic axis of times from low_ns to high_ns."""
    ax.set_yscale("log")
    ax.set_ylim(low_ns, high_ns)
    subs = (1.0, 2.0, 5.0) if high_ns < 256 * low_ns else (1.0,)
    ax.yaxis.set_major_locator(LogLocator(subs=subs, numticks=9))
    ax.yaxis.set_major_formatter(FuncFormatter(time_tick))
    ax.yaxis.set_minor_formatter(NullFormatter())
