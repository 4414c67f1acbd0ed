# SPDX-License-Identifier: BSD-2-Clause
"""Which configurations of a sweep are not yet as certain as the goal: half-width at most so many percent."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.measures.common.statistics import mean_ci
from analysis.measures.statistics.stopping import LOOK_FROM, enough
from analysis.measures.sweep.data import SweepData
from analysis.rundir.sweep_dir import Configuration


def short_of_goal(data: SweepData, goal_pct: float) -> list[tuple[Configuration, str]]:
    """Configurations whose headline is not certain enough on a machine that ran them, each with the reason.

    A configuration without a finished run is short of the goal, too.
    """
    short: list[tuple[Configuration, str]] = []
    certain: set[str] = set()
    for group in data.groups:
        rows = {row.configuration.id: row for row in group.ranking.rows}
        for configuration in group.configurations:
            row = rows.get(configuration.id)
            if row is None:
                short.append((configuration, "no run has the figure"))
            elif enough(row.values, goal_pct):
                certain.add(configuration.id)
            elif row.n < LOOK_FROM:
                short.append((configuration, f"n={row.n}: at least {LOOK_FROM} are looked at"))
            else:
                short.append((configuration, f"half-width {half_width_pct(row.values):.1f} % of the mean"))
    named = certain | {configuration.id for configuration, _ in short}
    short += [(one, "no run is done") for one in data.sweep.configurations if one.id not in named]
    return short


def half_width_pct(values: Sequence[float]) -> float:
    """95 % half-width of the mean in percent of it; infinite without one."""
    mean = mean_ci(values)
    if mean is None or mean.half_width is None or not mean.value:
        return float("inf")
    return 100 * mean.half_width / abs(mean.value)
