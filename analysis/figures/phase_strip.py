# SPDX-License-Identifier: BSD-2-Clause
"""The strip of the workload's phases above the panels.

Consecutive phases of one name share a band and a label; ticks show where each begins. A label too long for
its band stands above it, on the first line with room. Only changes of name are drawn through the panels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.measures.results import Results
from analysis.tables.phase import Phases

CHARACTER_IN = 0.083  # width of a character of a label
SMALL_CHARACTER_IN = 0.073  # of a label above its band
BAND_IN = 0.22
LINE_IN = 0.14
MOST_LINES = 4  # of labels above the bands
MOST_BORDERS = 40  # bands; the borders of more are not drawn through the panels
MOST_TICKS = 300


@dataclass(frozen=True)
class Band:
    """Consecutive phases of one name, in seconds of the picture."""

    name: str
    label: str
    start_s: float
    end_s: float
    line: int | None  # of the label: 0 in the band, 1 and more above it; None: no room
    label_s: float  # the middle of the label


@dataclass(frozen=True)
class Strip:
    """All bands, and the number of label lines above them."""

    bands: list[Band]
    lines: int

    @property
    def height_in(self) -> float:
        """Height of the bands and the label lines."""
        return BAND_IN + self.lines * LINE_IN


def join_consecutive(phases: Phases) -> list[tuple[str, int, int, int]]:
    """(name, number of phases, start_ns, end_ns) of consecutive phases of one name."""
    joined: list[tuple[str, int, int, int]] = []
    for name, start, end in zip(phases.name, phases.start_ns.tolist(), phases.end_ns.tolist(), strict=True):
        if joined and joined[-1][0] == name:
            joined[-1] = (name, joined[-1][1] + 1, joined[-1][2], max(joined[-1][3], end))
        else:
            joined.append((name, 1, start, end))
    return joined


def make_strip(phases: Phases, results: Results, width_in: float) -> Strip:
    """Place every label: inside its band, or on the first line above with room. width_in: of the strip."""
    begin_s, finish_s = float(results.timeline.edges_s[0]), float(results.timeline.edges_s[-1])
    per_in = (finish_s - begin_s) / width_in
    free_from = [begin_s] * (MOST_LINES + 1)
    bands = []
    for name, times, start_ns, end_ns in join_consecutive(phases):
        # phases outside the picture are not drawn: far text would overflow the renderer
        start = max((start_ns - results.timeline.zero_ns) / 1e9, begin_s)
        end = min((end_ns - results.timeline.zero_ns) / 1e9, finish_s)
        if end < start:
            continue
        label = f"{name} ×{times}" if times > 1 else name
        middle = (start + end) / 2
        line: int | None = None
        if len(label) * CHARACTER_IN * per_in <= end - start and start >= free_from[0]:
            line, free_from[0] = 0, end
        else:
            half = (len(label) + 1) * SMALL_CHARACTER_IN * per_in / 2
            middle = min(max(middle, begin_s + half), finish_s - half)
            free = (i for i in range(1, MOST_LINES + 1) if middle - half >= free_from[i] - 1e-9)
            line = next(free, None) if 2 * half <= finish_s - begin_s else None
            if line is not None:
                free_from[line] = middle + half
        bands.append(Band(name, label, start, end, line, middle))
    return Strip(bands, max((band.line or 0 for band in bands), default=0))


def draw_phases(
    figure: Figure,
    box: tuple[float, float, float, float],
    strip: Strip,
    phases: Phases,
    results: Results,
    panels: list[Axes],
) -> None:
    """Draw the strip into `box` (figure coordinates, strip.height_in tall), its borders into the panels."""
    ax = figure.add_axes(box, sharex=panels[0])
    ax.set_ylim(0, strip.height_in)
    ax.axis("off")
    for i, band in enumerate(strip.bands):
        ax.fill_between([band.start_s, band.end_s], 0, BAND_IN, color=style.PHASE_BANDS[i % 2], lw=0)
        if band.line == 0:
            ax.text(
                band.label_s, BAND_IN / 2, band.label, ha="center", va="center", fontsize=8.5, color=style.INK
            )
        elif band.line is not None:
            y = BAND_IN + (band.line - 0.5) * LINE_IN
            middle = (band.start_s + band.end_s) / 2
            ax.plot([middle, middle], [BAND_IN * 0.5, y - LINE_IN * 0.4], color="#8894A5", lw=0.5)
            ax.text(
                band.label_s,
                y,
                band.label,
                ha="center",
                va="center",
                fontsize=7.5,
                color=style.INK,
                bbox={"facecolor": "white", "linewidth": 0, "pad": 0.6},
            )
    begin_s, finish_s = float(results.timeline.edges_s[0]), float(results.timeline.edges_s[-1])
    ticks = (np.unique(np.concatenate((phases.start_ns, phases.end_ns))) - results.timeline.zero_ns) / 1e9
    ticks = ticks[(ticks >= begin_s) & (ticks <= finish_s)]
    if ticks.size <= MOST_TICKS:
        ax.add_collection(
            LineCollection([[(x, 0), (x, 0.06)] for x in ticks], colors="#8894A5", linewidths=0.7)
        )
    if len(strip.bands) <= MOST_BORDERS:
        for panel in panels:
            for x in {x for band in strip.bands for x in (band.start_s, band.end_s)}:
                panel.axvline(x, color="#9AA5B4", lw=0.6, ls=(0, (1, 2)), zorder=0.5)
