# SPDX-License-Identifier: BSD-2-Clause
"""The workload's thread time by phase. The recorder cuts the time bins at the edges of phases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.causes.roles import WORKLOAD
from analysis.measures.app.phases import OUTSIDE
from analysis.measures.app.phases import group as group_phases
from analysis.measures.common.intervals import union
from analysis.measures.threads.parts import Part, sum_parts
from analysis.tables.phase import Phases
from analysis.tables.rows import take
from analysis.tables.store import Categorical
from analysis.tables.thread_time import ThreadTime


@dataclass(frozen=True)
class PhaseTime:
    """Thread time of the workload in all phases of one name."""

    name: str
    parts: list[Part]  # most time first

    @property
    def ns(self) -> int:
        """All of it."""
        return sum(part.ns for part in self.parts)


def measure_phases(times: ThreadTime, kinds: Categorical, phases: Phases | None) -> list[PhaseTime]:
    """One row a name, in order, then the time outside of phases. A time bin belongs to its middle's phase."""
    if phases is None or not phases.name:
        return []
    middle = times.bin_ns + times.bin_length_ns // 2
    mine = np.flatnonzero(times.role.is_(WORKLOAD))
    mine = mine[np.argsort(middle[mine], kind="stable")]
    t_ns = middle[mine]
    left = np.ones(mine.size, dtype=np.bool_)
    found = []
    for name, members in group_phases(phases).items():
        spans = union([(int(phases.from_ns[i]), int(phases.until_ns[i])) for i in members])
        edges = np.searchsorted(t_ns, np.array(spans, dtype=np.int64)).tolist()
        inside = np.concatenate([np.arange(first, last) for first, last in edges])
        left[inside] = False
        if inside.size:
            found.append(_phase(name, times, kinds, mine[inside]))
    found.append(_phase(OUTSIDE, times, kinds, mine[left]))
    return [phase for phase in found if phase.parts]


def _phase(name: str, times: ThreadTime, kinds: Categorical, rows: np.ndarray) -> PhaseTime:
    return PhaseTime(name, sum_parts(take(times, rows), Categorical(kinds.codes[rows], kinds.labels)))
