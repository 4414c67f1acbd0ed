# SPDX-License-Identifier: BSD-2-Clause
"""Throughput by N of one line: means, saturation, the trend a N^b, the Universal Scalability Law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.measures.scaling.lines import Line
from analysis.measures.scaling.saturation import Saturation, find_saturation
from analysis.measures.statistics import power_law, usl
from analysis.measures.statistics.samples import Description, describe


@dataclass(frozen=True)
class Point:
    """Throughput at one N."""

    n: int
    throughput: Description


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
        saturation=find_saturation({point.n: point.throughput.as_mean for point in points}),
        trend=power_law.fit(n, x),
        law=usl.fit(n, x) if not line.why else usl.Usl(False, line.why),
    )
