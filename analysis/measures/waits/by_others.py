# SPDX-License-Identifier: BSD-2-Clause
"""What threads of other programs slept for: the table thread_time."""

from __future__ import annotations

import numpy as np

from analysis.causes.roles import OTHER
from analysis.tables.thread_rows import ASLEEP
from analysis.tables.thread_time import ThreadTime


def slept_by_others(times: ThreadTime | None, cause: str) -> list[tuple[str, int]]:
    """Threads' names and ns asleep with this cause, on any file system, most first."""
    if times is None:
        return []
    mine = times.role.is_(OTHER) & times.state.is_in(ASLEEP) & times.cause.is_(cause)
    sums = np.bincount(times.comm.codes[mine], times.ns[mine], len(times.comm.labels))
    found = [(name, int(ns)) for name, ns in zip(times.comm.labels, sums.tolist(), strict=True) if ns]
    return sorted(found, key=lambda one: (-one[1], one[0]))
