# SPDX-License-Identifier: BSD-2-Clause
"""Autoregressive series from what drives them, many at once.

scipy.signal.lfilter does the same, but its import takes longer than a small run's whole report.
"""

from __future__ import annotations

import numpy as np

from analysis.measures.common.timeline import F64


def driven_series(drive: F64, coefficients: F64) -> F64:
    """x(t) = drive(t) + the sum of coefficients(k) x(t - k), k from 1; 0 before. drive: series x time."""
    by_time = np.array(drive.T, order="C")
    used = np.flatnonzero(coefficients)
    order = int(used[-1]) + 1 if used.size else 0
    backward = np.ascontiguousarray(coefficients[:order][::-1])
    for t in range(1, by_time.shape[0]):
        before = by_time[max(t - order, 0) : t]
        by_time[t] += backward[order - before.shape[0] :] @ before
    return np.asarray(by_time.T)
