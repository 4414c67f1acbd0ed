/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * CPU samples of running threads: in user mode, in a softirq on the thread's back, spinning for a lock. Part of
 * threads.bpf.c.
 *
 * The clock is no NMI, so it never hits a hard interrupt: what these take is in the time of what they interrupted. A
 * softirq has a stack of its own on x86-64; where it has none it counts as the thread's. A sample in a mutex's or rwsem's
 * slow path counts as spinning: such a function spins, or sleeps, in all but a few nanoseconds.
 */
#ifndef SEEKMETER_THREAD_SAMPLES_H
#define SEEKMETER_THREAD_SAMPLES_H

#include "common/cpu_samples.h"
#include "thread_identity.h"
#include "thread_sums.h"

static __always_inline bool spins(struct sampled *ctx)
{
	u64 kind = range_kind(ctx->registers[REGISTER_IP]);

	if (kind == SPIN_HELPER)
		kind = caller_kind(ctx);
	return kind != SPIN_NOT && kind != SPIN_CPU_HALTED;
}

static __always_inline void take_sample(struct sampled *ctx, struct task_struct *task,
					struct thread_counts *count)
{
	struct thread_slot *slot = slot_of(find_context(task));
	u64 bin = bin_of(&cuts, bin_ns, bpf_ktime_get_ns());
	struct thread_time_sum *sum;
	struct thread_time_key key;

	if (!slot || slot->key.state != THREAD_STATE_RUNNING) {
		count->samples_lost++;
		return;
	}
	key = slot->key;
	if (((struct task_struct___time *)task)->flags & PF_WQ_WORKER)
		key.work = work_of(task, slot, true);
	sum = cell_of(slot, &key, bin, count);
	sum->samples++;
	if (is_user_mode(ctx))
		sum->samples_user++;
	else if (ctx->registers[REGISTER_SP] - (u64)task->stack >= KERNEL_STACK_BYTES)
		sum->samples_softirq++;
	else if (spins(ctx))
		sum->samples_spin++;
}

SEC("perf_event")
int thread_sample(struct sampled *ctx)
{
	struct bin_epoch *epoch = &epochs[bpf_get_smp_processor_id() & (BIN_CPUS - 1)];
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_counts *count = counts_here();

	if (!count)
		return 0;
	*(volatile u64 *)&epoch->inside += 1;
	count->samples++;
	if (task->pid)
		take_sample(ctx, task, count);
	else
		count->samples_idle++;
	*(volatile u64 *)&epoch->inside -= 1;
	return 0;
}

#endif
