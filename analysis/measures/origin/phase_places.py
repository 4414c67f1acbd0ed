# SPDX-License-Identifier: BSD-2-Clause
"""Which phases a moment lies in, for sums of millions of requests by phase.

Phases of several names may overlap. The window is cut at every edge of a phase; pieces that lie in the same
phases are one place, so there are hardly more places than names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.measures.app import phases
from analysis.measures.common.intervals import Intervals, clipped, outside, union
from analysis.tables.phase import Phases
from analysis.tables.store import I64

LEAST_REST_NS = 1_000_000  # a shorter time outside of phases has no row


class PhasePlaces:
    """The places of a window. names: of all phases, and of the time outside; names_of: of each place."""

    def __init__(self, marked: Phases, window_ns: tuple[int, int]) -> None:
        self.spans = _spans(marked, window_ns)
        self.names: Sequence[str] = list(self.spans)
        self._edges = np.array(
            sorted({e for spans in self.spans.values() for span in spans for e in span}), np.int64
        )
        member = np.zeros((self._edges.size + 1, len(self.names)), dtype=np.bool_)
        for column, spans in enumerate(self.spans.values()):
            for begin, end in spans:
                member[
                    np.searchsorted(self._edges, begin) + 1 : np.searchsorted(self._edges, end) + 1, column
                ] = True
        places, self._place = np.unique(member, axis=0, return_inverse=True)
        self.names_of = [
            {name for name, inside in zip(self.names, row, strict=True) if inside} for row in places
        ]

    def of(self, t_ns: I64) -> npt.NDArray[np.intp]:
        """The place of each moment."""
        return np.asarray(self._place[np.searchsorted(self._edges, t_ns, side="right")])


def _spans(marked: Phases, window_ns: tuple[int, int]) -> dict[str, Intervals]:
    """The time of the phases of each name, and the time outside of all, within the window."""
    everything = [(int(a), int(b)) for a, b in zip(marked.start_ns, marked.end_ns, strict=True)]
    named = {
        name: clipped(union([everything[i] for i in members]), *window_ns)
        for name, members in phases.group(marked).items()
    }
    rest = outside(everything, *window_ns)
    return {**named, phases.OUTSIDE: rest} if sum(b - a for a, b in rest) > LEAST_REST_NS else named
