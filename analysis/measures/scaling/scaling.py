# SPDX-License-Identifier: BSD-2-Clause
"""Throughput by N of one line: means, saturation, the trend a N^b, the Universal Scalability Law.

Saturation: the smallest N whose mean throughput does not differ from the best mean, by the paper's rule
(bryant2002). Few runs see little: beside it stands the difference that these runs could have seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.common.statistics import differ
from analysis.measures.scaling.lines import Line
from analysis.measures.statistics import power_law, usl
from analysis.measures.statistics.differences import seen_pct
from analysis.measures.statistics.samples import Description, describe

SATURATION = (
    "saturation: the smallest N whose mean does not differ from the best mean (95 % intervals apart and 10 %"
    " of the best, Bryant 2002); sees: the difference from the best that these runs find in 80 % of cases"
)


@dataclass(frozen=True)
class Point:
    """Throughput at one N."""

    n: int
    throughput: Description


@dataclass(frozen=True)
class Saturation:
    """Where more threads stop helping."""

    n: int | None  # None: see why
    why: str
    seen_pct: float | None  # the difference from the best mean that the runs at this N could have shown


@dataclass(frozen=True)
class Scaling:
    """One line, measured."""

    line: Line
    points: tuple[Point, ...]  # ascending N
    saturation: Saturation
    trend: power_law.PowerLaw | None
    law: usl.Usl

    @property
    def best(self) -> Point | None:
        """The point of the highest mean."""
        return max(self.points, key=lambda point: point.throughput.mean, default=None)


def measure_scaling(line: Line) -> Scaling:
    """Measure one line."""
    n, x = line.n, line.x
    points = []
    for count in np.unique(n):
        found = describe(x[n == count])
        if found is not None:
            points.append(Point(int(count), found))
    return Scaling(
        line=line,
        points=tuple(points),
        saturation=_saturation(points),
        trend=power_law.fit(n, x),
        law=usl.fit(n, x) if not line.why else usl.Usl(False, line.why),
    )


def _saturation(points: list[Point]) -> Saturation:
    if not points:
        return Saturation(None, "no throughput", None)
    best = max(points, key=lambda point: point.throughput.mean)
    if any(point.throughput.n < 2 for point in points):
        return Saturation(None, "single runs: no verdict", None)
    mean = best.throughput.as_mean
    alike = next(point for point in points if not differ(mean, point.throughput.as_mean))
    seen = seen_pct(mean, alike.throughput.as_mean) if alike is not best else None
    if alike is points[-1]:
        return Saturation(None, f"throughput still grows at {alike.n}", seen)
    return Saturation(alike.n, "", seen)
