# SPDX-License-Identifier: BSD-2-Clause
"""COLLECT=sched: each switch and wake of the workload's threads and of kernel threads, for the critical path.

A switch of any task costs about 160 ns, a wake 200 (6.18, by the kernel's count), and a record 20 more in the
recorder. The budget is 60,000 events a second on a CPU, about 1.2 % of its time, or 120,000 on all, 4.3 MB
a second. Above it the rest of the second is given up on all CPUs: sched_window.jsonl has that time, and the
report names it. Recording goes on with the next second whose events fit. In a second given up each event
still costs about 60 ns.
"""

from collectors.recorder.shared import recorder_collector

COLLECTOR = recorder_collector(
    "sched",
    default=True,
    order=17,
    cost="about 160 ns per switch and 200 per wake of any task; none above 60,000 of them a second on a CPU",
    tables=("switch", "wake", "sched_window"),
    tracepoints=("sched_switch", "sched_waking", "task_newtask"),
    remedy="Linux 5.12 or newer has what it needs",
)
