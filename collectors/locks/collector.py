# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=locks: waits for the kernel's locks by call path and time bin, and samples of spinning CPUs."""

from collectors.recorder.shared import recorder_collector

COLLECTOR = recorder_collector(
    "locks",
    default=True,
    order=11,
    cost="about 40 ns of CPU time per contended acquisition",
    tables=("lock_wait", "lock_sample", "lock", "stack"),
    tracepoints=("contention_begin", "contention_end", "sched_switch"),
    remedy="Linux 5.19 or newer has them",
)
