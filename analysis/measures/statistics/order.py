# SPDX-License-Identifier: BSD-2-Clause
"""Drift of the machine during a sweep: residuals against the order of the runs, permuted within blocks.

Each block has every configuration once, in a shuffled order. Without drift a value does not depend on its
place in the block: the places could be exchanged. p is the share of such exchanges whose slope is as steep
(fisher1935).
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
    """Each value over the mean of its configuration, minus 1.

    NaN where a configuration has a single value or a mean of 0, and for values that are no finite numbers.
    """
    names = np.array([str(name) for name in configurations])
    relative = np.full(values.size, np.nan)
    for name in np.unique(names):
        inside = (names == name) & np.isfinite(values)
        if np.count_nonzero(inside) > 1 and (mean := values[inside].mean()) != 0:
            relative[inside] = values[inside] / mean - 1
    return relative


def drift(
    values: Sequence[float] | F64,
    configurations: Sequence[str],
    blocks: Sequence[str] | Sequence[int],
    order: Sequence[int],
) -> Drift:
    """Drift of one figure of a sweep, one value per run.

    Machines are told apart by the caller: configurations and blocks of two machines have two names.
    """
    relative = residuals(np.asarray(values, dtype=np.float64), configurations)
    places = np.asarray(order, dtype=np.float64)
    block_names = np.array([str(block) for block in blocks])
    rng = np.random.default_rng(SEED)
    covariance, squares, permuted = 0.0, 0.0, np.zeros(PERMUTATIONS)
    for name in np.unique(block_names):
        inside = (block_names == name) & np.isfinite(relative)
        if np.count_nonzero(inside) > 1:
            steps = places[inside] - places[inside].mean()
            covariance += float(steps @ relative[inside])
            squares += float(steps @ steps)
            permuted += rng.permuted(np.tile(steps, (PERMUTATIONS, 1)), axis=1) @ relative[inside]
    if squares == 0:
        return Drift(None, None, "no block has two configurations with repetitions")
    if not np.nan_to_num(relative).any():
        return Drift(None, None, "the values do not vary")
    steep = int(np.count_nonzero(np.abs(permuted) >= abs(covariance) * (1 - 1e-9)))
    return Drift((1 + steep) / (1 + PERMUTATIONS), 100 * covariance / squares, "")
