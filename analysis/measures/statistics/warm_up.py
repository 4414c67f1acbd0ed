# SPDX-License-Identifier: BSD-2-Clause
"""Warm-up of a run by MSER-5: where to cut, and the mean with and without the warm-up.

Both means are shown; neither is averaged into the other. A cut in the second half is refused: then the series
reaches no steady state, or leaves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.measures.common.timeline import F64

BATCH = 5  # values
LEAST_BATCHES = 10
LEFT = 5  # batches that every cut leaves: the last ones alone often have a small spread by chance


@dataclass(frozen=True)
class WarmUp:
    """A cut, in values from the start of the series; 0: no warm-up."""

    cut: int
    refused: bool
    why: str  # it is refused
    mean_with: float  # of the whole series
    mean_without: float | None  # of the series from the cut on; None: refused


def mser5(series: Sequence[float] | F64) -> WarmUp | None:
    """The cut with the smallest squared standard error of the rest, in batches of 5 (mser5).

    None without a value. Values left over at the end, up to 4, take no part in choosing the cut.
    """
    values = np.asarray(series, dtype=np.float64)
    if not values.size:
        return None
    whole = float(values.mean())
    count = values.size // BATCH
    if count < LEAST_BATCHES:
        why = f"{values.size} values: at least {BATCH * LEAST_BATCHES} are needed"
        return WarmUp(0, True, why, whole, None)
    means = values[: count * BATCH].reshape(count, BATCH).mean(axis=1)
    centred = means - means.mean()  # sums of squares of large values would cancel
    left = np.arange(count, 0, -1)  # batches from each cut on
    sums = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum(centred[::-1] ** 2)[::-1]
    squared_error = (squares - sums**2 / left) / left**2.0
    batches = int(np.argmin(squared_error[: count - LEFT + 1]))
    cut = batches * BATCH
    if 2 * batches > count:
        why = f"the cut, at {100 * cut / values.size:.0f} % of the series, is in its second half"
        return WarmUp(cut, True, why, whole, None)
    return WarmUp(cut, False, "", whole, float(values[cut:].mean()))
