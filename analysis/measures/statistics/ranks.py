# SPDX-License-Identifier: BSD-2-Clause
"""Ranks, their correlation, and how far two orders of the same things agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64


def ranks(values: F64) -> F64:
    """Ranks from 1, ties share their mean rank."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    group = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    counts = np.diff(np.append(starts, values.size))
    result = np.empty(values.size)
    result[order] = (starts + (counts + 1) / 2)[group]
    return result


def standard(values: F64) -> F64:
    """The values minus their mean, of length 1; all 0 if the values are constant."""
    centred = values - values.mean()
    norm = math.sqrt(float((centred**2).sum()))
    return centred / norm if norm > 0 else np.zeros_like(centred)


def spearman(x: F64, y: F64) -> float:
    """Spearman's rho; 0 if a series is constant (spearman)."""
    return float(np.clip(standard(ranks(x)) @ standard(ranks(y)), -1.0, 1.0))


@dataclass(frozen=True)
class Agreement:
    """Pairs of things, by whether two figures put them into the same order."""

    same: int
    opposite: int
    tied: int  # equal in one of the figures at least
    tau: float | None  # Kendall's tau-b, -1..1; None: a figure has one value for all things

    @property
    def pairs(self) -> int:
        """All pairs."""
        return self.same + self.opposite + self.tied


def agreement(x: Sequence[float] | F64, y: Sequence[float] | F64) -> Agreement:
    """How far two figures of the same things order them alike (kendall1938)."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    upper = np.triu_indices(a.size, 1)
    da, db = np.sign(a[:, None] - a[None, :])[upper], np.sign(b[:, None] - b[None, :])[upper]
    same, opposite = int(np.count_nonzero(da * db > 0)), int(np.count_nonzero(da * db < 0))
    norm = math.sqrt(float(np.count_nonzero(da)) * float(np.count_nonzero(db)))
    return Agreement(same, opposite, da.size - same - opposite, (same - opposite) / norm if norm else None)
