# SPDX-License-Identifier: BSD-2-Clause
"""Saturation: the number of threads, CPUs or tasks from which on more of them add less than 10 %."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.measures.common.statistics import LEAST_DIFFERENCE, Mean, differ
from analysis.measures.statistics.differences import seen_pct

SATURATION = (
    "saturation: the smallest N whose mean is less than 10 % below the best mean; where a smaller one does"
    " not differ from the best by the rule (95 % intervals apart and 10 %, Bryant 2002), both: 4 to 8"
)
SEES = "sees: the difference from the best that the runs at the first of these N find in 80 % of cases"


@dataclass(frozen=True)
class Saturation:
    """Where more threads stop helping: at `first`, if few runs do not hide a difference, else at `n`."""

    first: float | None  # the smallest N whose mean does not differ from the best by the rule; None: see why
    n: float | None  # the smallest N whose mean is less than 10 % below the best; None as first
    why: str  # there is none
    seen_pct: float | None = None  # the difference from the best that the runs at `first` could have shown

    @property
    def text(self) -> str:
        """8, or 4 to 8; -: none."""
        if self.first is None or self.n is None:
            return "-"
        return f"{self.n:g}" if self.first == self.n else f"{self.first:g} to {self.n:g}"


def find_saturation(means: Mapping[int, Mean] | Mapping[float, Mean]) -> Saturation:
    """Saturation of mean throughput by N."""
    points: list[tuple[float, Mean]] = sorted(means.items())
    if not points:
        return Saturation(None, None, "no throughput")
    if any(mean.half_width is None for _, mean in points):
        return Saturation(None, None, "single runs: no verdict")
    best = max((mean for _, mean in points), key=lambda mean: mean.value)
    near = best.value - LEAST_DIFFERENCE * abs(best.value)
    first, alike = next((n, mean) for n, mean in points if not differ(best, mean))
    certain = next(n for n, mean in points if mean is best or mean.value > near)
    if first == points[-1][0]:
        return Saturation(None, None, f"throughput still grows at {first:g}")
    return Saturation(first, certain, "", seen_pct(best, alike) if alike is not best else None)
