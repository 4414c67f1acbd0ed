# SPDX-License-Identifier: BSD-2-Clause
"""Drift of the machine during a sweep: residuals against the order of the runs, permuted within blocks.

Each block has every configuration once, in a shuffled order. Without drift a value does not depend on its
place in the block: the places could be exchanged. p is the share of such exchanges whose slope is as steep.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64

PERMUTATIONS = 4999
SEED = 1935
SURE = 0.05  # p below it: the report has a banner
DEFINITION = (
    "drift: slope of the values, each relative to its configuration's mean, over the order of runs within"
    " blocks; p: share of permutations of the order within blocks that give a slope as steep"
)


@dataclass(frozen=True)
class Drift:
    """How values changed with the order of runs, within blocks."""

    p: float | None  # None: see why
    per_run_pct: float | None  # change from one run to the next, in percent of a configuration's mean
    why: str

    @property
    def is_sure(self) -> bool:
        """Whether p is below SURE."""
        return self.p is not None and self.p < SURE


def residuals(values: F64, configurations: Sequence[str]) -> F64:
    """Each value relative to the mean of its configuration, minus 1; NaN where that mean is 0."""
    _, index = np.unique(np.asarray(configurations), return_inverse=True)
    means = np.bincount(index, weights=values) / np.bincount(index)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(means[index] != 0, values / means[index] - 1, np.nan))


def drift(
    values: Sequence[float] | F64,
    configurations: Sequence[str],
    blocks: Sequence[str] | Sequence[int],
    order: Sequence[int],
) -> Drift:
    """Drift of one figure of a sweep, one value a run.

    Machines are told apart by the callers: configurations and blocks of two machines have two names.
    """
    given = np.asarray(values, dtype=np.float64)
    usable = np.isfinite(given)
    residual = np.full(given.size, np.nan)
    names = np.asarray(configurations, dtype=object)
    if usable.any():
        residual[usable] = residuals(given[usable], [str(name) for name in names[usable]])
    repeated = {str(name) for name in names[usable]} if usable.any() else set()
    counts = {name: sum(str(n) == name for n in names[usable]) for name in repeated}
    usable &= np.isfinite(residual) & np.array([counts.get(str(name), 0) > 1 for name in names], dtype=bool)
    rng = np.random.default_rng(SEED)
    block_of, place = np.asarray([str(b) for b in blocks]), np.asarray(order, dtype=np.float64)
    covariance, squares = 0.0, 0.0
    permuted = np.zeros(PERMUTATIONS)
    for name in np.unique(block_of[usable]):
        inside = usable & (block_of == name)
        if np.count_nonzero(inside) < 2:
            continue
        places = place[inside] - place[inside].mean()
        covariance += float(places @ residual[inside])
        squares += float(places @ places)
        shuffled = rng.permuted(np.tile(places, (PERMUTATIONS, 1)), axis=1)
        permuted += shuffled @ residual[inside]
    if squares == 0:
        return Drift(None, None, "no block has two configurations with repetitions")
    if not np.any(residual[usable]):
        return Drift(None, None, "the values do not vary")
    steep = np.abs(permuted) >= abs(covariance) * (1 - 1e-9)
    p = (1 + int(np.count_nonzero(steep))) / (1 + PERMUTATIONS)
    return Drift(p, 100 * covariance / squares, "")
