# SPDX-License-Identifier: BSD-2-Clause
"""The CPUs that the workload's threads were switched to: not all, where it is bound to some."""

from __future__ import annotations

import numpy as np

from analysis.causes.roles import WORKLOAD
from analysis.tables import switch
from analysis.tables.load import Tables

LEAST_SWITCHES = 50  # with fewer, it may be chance that a CPU was never chosen


def cpus_ran_on(tables: Tables) -> tuple[int, ...]:
    """Their numbers; empty: not recorded, or too few switches to tell."""
    table = tables.get(switch.TABLE)
    if table is None:
        return ()
    mine = table.next_role.is_(WORKLOAD)
    if np.count_nonzero(mine) < LEAST_SWITCHES:
        return ()
    return tuple(np.unique(table.cpu[mine]).tolist())
