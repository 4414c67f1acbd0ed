# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=events: commits, checkpoints, writeback, reclaim: begin, end and reason of each; bytes that became dirty."""

from collectors.recorder.shared import recorder_collector

COLLECTOR = recorder_collector(
    "events",
    default=True,
    order=13,
    cost="a check per wakeup, a sum per dirtied page; a record per commit, flush or pause",
    tables=("event", "event_kind", "dirtied"),
    tracepoints=("balance_dirty_pages", "sched_waking", "writeback_single_inode", "writeback_start"),
)
