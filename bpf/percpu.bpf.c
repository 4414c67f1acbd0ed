// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Where is a CPU's run queue?
 *
 * Run once on each CPU, at the start, attached to nothing. The run queue is a per-CPU variable, so its
 * address tells where that CPU's part of all per-CPU variables begins, also on kernels that list no data in
 * /proc/kallsyms. Every task, the idle one too, knows the queue it is on (CONFIG_FAIR_GROUP_SCHED).
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "records.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

u64 run_queues[BIN_CPUS]; /* by CPU; 0: not known */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct rq {
	int cpu;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct task_struct___queue {
	struct sched_entity se;
};

#pragma clang attribute pop

SEC("raw_tp")
int find_run_queue(void *ctx)
{
	struct task_struct___queue *task = (void *)bpf_get_current_task();
	struct rq *queue = NULL;
	u32 cpu;

	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(queue->cpu))
		return 0;
	queue = BPF_CORE_READ(task, se.cfs_rq, rq);
	cpu = BPF_CORE_READ(queue, cpu);
	if (queue && cpu < BIN_CPUS)
		run_queues[cpu] = (u64)queue;
	return 0;
}
