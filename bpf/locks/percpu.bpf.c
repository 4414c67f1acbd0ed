// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Address of each CPU's run queue, from which the begin of its per-CPU variables follows.
 *
 * Run once on each CPU, at the start, attached to nothing. Works on kernels that list no data in /proc/kallsyms too: every
 * task, the idle one included, points to its run queue (CONFIG_FAIR_GROUP_SCHED). The members' offsets come from user
 * space, which has read the kernel's BTF already: CO-RE would read it once more, which takes libbpf 50 ms.
 */
#include "common/kernel.h"

#include <bpf/bpf_helpers.h>

#include "common/records.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading: task_struct.se.cfs_rq, cfs_rq.rq, rq.cpu */
const volatile u32 cfs_rq_at, rq_at, cpu_at;

u64 run_queues[BIN_CPUS]; /* by CPU; 0: not known */

SEC("raw_tp")
int find_run_queue(void *ctx)
{
	u64 task = bpf_get_current_task(), cfs_rq = 0, queue = 0;
	u32 cpu = BIN_CPUS;

	bpf_probe_read_kernel(&cfs_rq, sizeof(cfs_rq), (void *)(task + cfs_rq_at));
	bpf_probe_read_kernel(&queue, sizeof(queue), (void *)(cfs_rq + rq_at));
	bpf_probe_read_kernel(&cpu, sizeof(cpu), (void *)(queue + cpu_at));
	if (cpu < BIN_CPUS)
		run_queues[cpu] = queue;
	return 0;
}
