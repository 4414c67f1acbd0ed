# SPDX-License-Identifier: BSD-2-Clause
"""What each wake-up says of the sleep before it: whom the walk follows, or why it ends there.

A wake-up in an interrupt is not the doing of the task that was interrupted: it names the completed request,
or is a timer's, or the network's. A wake-up in a task is that task's doing, but for a completion: loop
devices and some drivers complete requests in tasks. Where the context is not known, the task is followed as a
weak link.
"""

from __future__ import annotations

import numpy as np

from analysis.measures.critical_path.intervals import Intervals
from analysis.measures.critical_path.pieces import Kind
from analysis.measures.critical_path.requests import REQUEST
from analysis.measures.critical_path.stretches import I32, NONE
from analysis.measures.critical_path.walk import Wakes
from analysis.tables.store import I64
from analysis.tables.wake import Wake

TASK, UNKNOWN = "task", "unknown"  # contexts of the table wake
KINDS = {"timer": Kind.TIMER, "net": Kind.NETWORK, REQUEST: Kind.NO_REQUEST}


def make_wakes(wake: Wake, request: I32, devs: I64, intervals: Intervals) -> Wakes:
    """For each row of the table wake.

    request: the walk's number of the completed request, NONE: none. devs: the recorded devices.
    """
    in_task = wake.context.is_in((TASK, UNKNOWN))
    waker = np.where(in_task & (request < 0), intervals.index(wake.waker), NONE).astype(np.int32)
    kind = np.full(wake.t_ns.size, Kind.INTERRUPT, dtype=np.uint8)
    for cause, its_kind in KINDS.items():
        kind[wake.cause.is_(cause)] = its_kind
    kind[wake.cause.is_(REQUEST) & ~np.isin(wake.dev, devs)] = Kind.OTHER_DISK
    kind[in_task & (kind != Kind.OTHER_DISK)] = Kind.UNLOGGED
    return Wakes(
        waker=waker,
        kind=kind,
        request=request,
        work_id=wake.work_id.astype(np.int32),
        weak=np.asarray(((request >= 0) & ~wake.sure) | wake.context.is_(UNKNOWN)),
    )
