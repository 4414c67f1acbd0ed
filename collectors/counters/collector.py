# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=counters: the whole system's CPU, memory, pressure and disk counters, sampled in every time bin."""

from collectors.collector import YES, Check
from collectors.recorder.shared import recorder_collector


def _readable() -> Check:
    return Check(
        "counters", YES, "/proc/stat, /proc/meminfo, /proc/vmstat, /proc/diskstats are readable for everyone"
    )


COLLECTOR = recorder_collector(
    "counters",
    default=True,
    order=13,
    cost="a few files of /proc and /sys read in every time bin",
    tables=("counter",),
    tried="tried: starts",
    untried=_readable,
)
