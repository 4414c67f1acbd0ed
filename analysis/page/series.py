# SPDX-License-Identifier: BSD-2-Clause
"""Series of panels: sums of a cube's keys, and values per time bin of a measure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.figures.style import Dash
from analysis.measures.common.timeline import F64, Timeline
from analysis.page.colors import both
from analysis.page.columns import Column
from analysis.page.data import FromCube, Samples, Series
from analysis.tables.store import I64
from analysis.visible import clean

FRACTION = 10_000  # a value of a measure is kept to this part of its unit
PER_NS = 1e-9  # ns per second as a number of threads, or a share


def dashes(dash: Dash) -> Sequence[float]:
    """A dash of figures/style.py in px."""
    return () if isinstance(dash, str) else tuple(2.0 * length for length in dash[1])


def line(name: str, color: str, source: FromCube | Samples, dash: Dash = "-", hatch: str = "") -> Series:
    """A line or band in the colour that it has in the static graph. hatch: of a band, as in style.py."""
    light, dark = both(color)
    return Series(clean(name, 200), light, dark, source, dashes(dash), hatch)


def of_bins(timeline: Timeline, values: F64, scale: float = 1.0) -> Samples:
    """A measure's values per bin, held from edge to edge; a bin without a value is left to the one before."""
    known = np.flatnonzero(np.isfinite(values))
    t = np.append(timeline.edges_ns[:-1][known], timeline.edges_ns[-1:]) - timeline.zero_ns
    numbers = np.rint(values[known] * FRACTION).astype(np.int64)
    return Samples(
        Column(t, "ds"),
        Column(np.append(numbers, numbers[-1:] if numbers.size else 0), "s"),
        True,
        scale / FRACTION,
    )


def of_moments(t: I64, zero_ns: int, values: I64, scale: float = 1.0) -> Samples:
    """Samples as they were taken."""
    return Samples(Column(t - zero_ns, "ds"), Column(values, "s"), True, scale)
