# SPDX-License-Identifier: BSD-2-Clause
"""Which phases a moment lies in, for sums of millions of requests by phase.

Phases of several names may overlap. The window is cut at every edge of a phase; pieces that lie in the same
phases are one place, so there are hardly more places than names.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analysis.measures.app import phases
from analysis.measures.common.intervals import Intervals, clipped, outside, union
from analysis.tables.phase import Phases
from analysis.tables.store import I64

LEAST_REST_NS = 1_000_000  # a shorter time outside of phases has no row


class PhasePlaces:
    """The places of a window. spans: time by name, of all phases and outside; inside: places by name."""

    def __init__(self, marked: Phases, window_ns: tuple[int, int]) -> None:
        self.spans = _spans(marked, window_ns)
        self.inside: dict[str, list[int]] = {name: [] for name in self.spans}
        turns: dict[int, set[str]] = {}  # names that begin or end at an edge
        for name, spans in self.spans.items():
            # spans of a name do not touch, so that it begins or ends at an edge
            for edge in (edge for begin, end in spans if end > begin for edge in (begin, end)):
                turns.setdefault(edge, set()).add(name)
        self._edges = np.array(sorted(turns), dtype=np.int64)
        now: frozenset[str] = frozenset()
        numbers = {now: 0}
        place = [0]
        for edge in self._edges.tolist():
            now ^= turns[edge]
            place.append(numbers.setdefault(now, len(numbers)))
        self._place = np.array(place, dtype=np.intp)
        self.count = len(numbers)
        for names, number in numbers.items():
            for name in names:
                self.inside[name].append(number)

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
    rest = union(outside(everything, *window_ns))  # a phase of no length parts it
    return {**named, phases.OUTSIDE: rest} if sum(b - a for a, b in rest) > LEAST_REST_NS else named
