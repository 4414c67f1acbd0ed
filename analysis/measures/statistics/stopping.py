# SPDX-License-Identifier: BSD-2-Clause
"""When repeated runs are enough: the half-width goal, looked at from 10 runs on.

Looking after every run stops too early by chance: from 3 runs on, the 95 % interval at the stop covers 90 %;
from 10 runs on, 94 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from analysis.measures.common.statistics import mean_ci
from analysis.measures.common.timeline import F64

LOOK_FROM = 10  # runs


def enough(values: Sequence[float] | F64, goal_pct: float) -> bool:
    """Whether the 95 % half-width of the mean is at most goal_pct percent of it, from LOOK_FROM runs on."""
    mean = mean_ci(values)
    if mean is None or mean.half_width is None or mean.n < LOOK_FROM:
        return False
    return mean.half_width <= goal_pct / 100 * abs(mean.value)
