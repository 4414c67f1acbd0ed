# SPDX-License-Identifier: BSD-2-Clause
"""The mark of a power cut on the IO graph: a line through all panels, named above the first."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from analysis.figures import style
from analysis.measures.results import Results
from analysis.rundir.power_cut import power_cut
from analysis.rundir.run import Run

LABEL = "power cut"


def draw_cut(run: Run, results: Results, panels: Sequence[Axes]) -> bool:
    """Draw the mark. Returns whether the power was cut in the time of the picture."""
    cut = power_cut(run)
    if cut is None or cut.cut_ns is None or not panels:
        return False
    at_s = (cut.cut_ns - results.timeline.zero_ns) / 1e9
    if not float(results.timeline.edges_s[0]) <= at_s <= float(results.timeline.edges_s[-1]):
        return False
    for panel in panels:
        panel.axvline(at_s, color=style.ALARM, lw=1.1, zorder=4)
    panels[0].annotate(
        LABEL,
        (at_s, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(-3, -3),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=7.5,
        fontweight="bold",
        color=style.ALARM,
        bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.8},
        zorder=5,
    )
    return True
