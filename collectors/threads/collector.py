# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=threads: every thread's time on a CPU, ready to run and asleep, with the stacks of its sleeps."""

from collectors.collector import Setting
from collectors.recorder.shared import recorder_collector

COLLECTOR = recorder_collector(
    "threads",
    default=True,
    order=15,
    cost="about 0.25 us of CPU time per switch, 0.15 us per wake-up",
    tables=("thread", "thread_time"),
    tracepoints=(
        "sched_migrate_task",
        "sched_process_exec",
        "sched_switch",
        "sched_wakeup",
        "sched_wakeup_new",
        "task_newtask",
    ),
    settings=(Setting("/proc/sys/kernel/task_delayacct", "1", "delays of block I/O in the table thread"),),
    remedy="Linux 5.12 or newer with BTF has them",
)
