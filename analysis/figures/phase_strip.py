# SPDX-License-Identifier: BSD-2-Clause
"""The strip of the workload's phases above the panels. Phases of one name in a row share one label and show
their borders as ticks, so twenty trees do not clutter; only changes of name run through the panels."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from analysis.figures import style
from analysis.measures.measured import Measured
from analysis.tables.phase import Phases

CHARACTER_IN = 0.083
MOST_BORDERS = 40


def runs_of_names(phases: Phases) -> list[tuple[str, int, int, int]]:
    """(name, how many, start_ns, end_ns) of phases of the same name in a row."""
    found: list[tuple[str, int, int, int]] = []
    for name, start, end in zip(phases.name, phases.start_ns.tolist(), phases.end_ns.tolist(), strict=True):
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1] + 1, found[-1][2], max(found[-1][3], end))
        else:
            found.append((name, 1, start, end))
    return found


def draw_phases(
    figure: Figure,
    box: tuple[float, float, float, float],
    width_in: float,
    phases: Phases | None,
    m: Measured,
    panels: list[Axes],
) -> None:
    """Draw the strip into `box` (figure coordinates), and the borders of names into the panels."""
    if phases is None:
        return
    ax = figure.add_axes(box, sharex=panels[0])
    ax.set_ylim(0, 1)
    ax.axis("off")
    zero = m.timeline.zero_ns
    begin_s, finish_s = float(m.timeline.edges_s[0]), float(m.timeline.edges_s[-1])
    span_s = finish_s - begin_s
    groups = runs_of_names(phases)
    free_from = -np.inf
    for i, (name, times, start_ns, end_ns) in enumerate(groups):
        # what lies outside the picture is not drawn: text at a far place would overflow the renderer
        start, end = max((start_ns - zero) / 1e9, begin_s), min((end_ns - zero) / 1e9, finish_s)
        if end < start:
            continue
        ax.axvspan(start, end, color=style.PHASE_BANDS[i % 2], lw=0)
        room = (end - start) / span_s * width_in if span_s > 0 else 0.0
        label = f"{name} ×{times}" if times > 1 else name
        if len(label) * CHARACTER_IN > room:
            label = name
        if len(label) * CHARACTER_IN <= room and start >= free_from:
            ax.text((start + end) / 2, 0.5, label, ha="center", va="center", fontsize=8.5, color=style.INK)
            free_from = start
    ends = np.concatenate((phases.start_ns, phases.end_ns))
    ticks = (np.unique(ends) - zero) / 1e9
    ticks = ticks[(ticks >= begin_s) & (ticks <= finish_s)]
    if ticks.size * 0.02 < width_in:
        ax.add_collection(
            LineCollection([[(x, 0), (x, 0.28)] for x in ticks], colors="#8894A5", linewidths=0.7)
        )
    borders = [(g[2] - zero) / 1e9 for g in groups] + [(groups[-1][3] - zero) / 1e9]
    borders = [x for x in borders if begin_s <= x <= finish_s]
    if len(borders) <= MOST_BORDERS:
        for panel in panels:
            for x in borders:
                panel.axvline(x, color="#9AA5B4", lw=0.6, ls=(0, (1, 2)), zorder=0.5)
