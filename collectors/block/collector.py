# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=block: one record per request to the disks: queue, issue and completion times, class, submitter."""

from collectors.recorder.shared import recorder_collector

COLLECTOR = recorder_collector(
    "block",
    default=True,
    order=10,
    cost="1 to 2 µs of CPU time per request",
    tables=("block", "volume", "plug"),
    tracepoints=(
        "block_bio_complete",
        "block_bio_frontmerge",
        "block_bio_queue",
        "block_bio_remap",
        "block_rq_complete",
        "block_rq_insert",
        "block_rq_issue",
        "block_rq_merge",
        "block_rq_remap",
        "block_rq_requeue",
        "block_split",
        "irq_handler_exit",
        "sched_switch",
        "sched_waking",
        "softirq_exit",
    ),
    needed=True,
)
