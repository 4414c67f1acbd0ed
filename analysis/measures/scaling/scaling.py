# SPDX-License-Identifier: BSD-2-Clause
"""Throughput by N of one line: means, saturation, the trend a N^b, the Universal Scalability Law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.common.statistics import LEAST_DIFFERENCE, differ
from analysis.measures.scaling.lines import Line
from analysis.measures.statistics import power_law, usl
from analysis.measures.statistics.differences import seen_pct
from analysis.measures.statistics.samples import Description, describe

SATURATION = (
    "saturation: the smallest N whose mean is less than 10 % below the best mean; where a smaller one does"
    " not differ from the best by the rule (95 % intervals apart and 10 %, Bryant 2002), both: 4 to 8; sees:"
    " the difference from the best that the runs at the first of these N find in 80 % of cases"
)


@dataclass(frozen=True)
class Point:
    """Throughput at one N."""

    n: int
    throughput: Description


@dataclass(frozen=True)
class Saturation:
    """Where more threads stop helping: at `first`, if few runs do not hide a difference, else at `n`."""

    first: int | None  # the smallest N whose mean does not differ from the best by the rule; None: see why
    n: int | None  # the smallest N whose mean is less than 10 % below the best; None as first
    why: str  # there is none
    seen_pct: float | None  # the difference from the best that the runs at `first` could have shown


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
        return Saturation(None, None, "no throughput", None)
    best = max(points, key=lambda point: point.throughput.mean)
    if any(point.throughput.n < 2 for point in points):
        return Saturation(None, None, "single runs: no verdict", None)
    mean = best.throughput.as_mean
    first = next(point for point in points if not differ(mean, point.throughput.as_mean))
    near = next(p for p in points if mean.value - p.throughput.mean < LEAST_DIFFERENCE * abs(mean.value))
    if first is points[-1]:
        return Saturation(None, None, f"throughput still grows at {first.n}", None)
    seen = seen_pct(mean, first.throughput.as_mean) if first is not best else None
    return Saturation(first.n, near.n, "", seen)
