/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What this CPU executes: a task, or an interrupt; and where the CPU's own variables are in memory.
 *
 * x86 keeps the count that tells it (preempt_count) in a per-CPU variable. A program may not name that variable on kernels
 * that list no data in /proc/kallsyms. Its address follows from that of the CPU's run queue, to which every task points
 * (CONFIG_FAIR_GROUP_SCHED), and from the offsets of both variables, which the recorder takes from the kernel's BTF
 * (collectors/recorder/cpu_context.h). Other architectures keep the count with the task.
 */
#ifndef SEEKMETER_CPU_CONTEXT_H
#define SEEKMETER_CPU_CONTEXT_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "common/records.h"

/* linux/preempt.h: the CPU executes a softirq; above this bit are counts of "softirqs are off". */
#define PREEMPT_SERVES_SOFTIRQ 0x100

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* kernel/sched/sched.h */
struct rq {
	int cpu;
};

struct cfs_rq {
	struct rq *rq;
};

struct sched_entity___queue {
	struct cfs_rq *cfs_rq;
};

/* Other architectures than x86: asm/thread_info.h */
struct thread_info___count {
	int preempt_count;
};

struct task_struct___cpu {
	struct sched_entity___queue se;
	struct thread_info___count thread_info;
};

/* asm-generic/qspinlock_types.h: any struct of the kernel that begins with an int serves */
struct qspinlock {
	atomic_t val;
};

#pragma clang attribute pop

/* since Linux kernel commit a35b9af4ec2c ("bpf: Add a kfunc for generic type cast") (in v6.2) */
extern void *bpf_rdonly_cast(const void *object, u32 type_id) __ksym __weak;

/* Set before loading: cpu_context_places() in the recorder. */
const volatile struct cpu_places cpu_places;

/* By CPU: the begin of its variables; 0: not looked for yet. */
static u64 cpu_begins[BIN_CPUS];

static __noinline u64 find_cpu_begin(u32 cpu)
{
	struct task_struct___cpu *task = (void *)bpf_get_current_task();
	struct rq *queue = NULL;

	if (cpu >= BIN_CPUS || !bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	queue = BPF_CORE_READ(task, se.cfs_rq, rq);
	if (!queue || BPF_CORE_READ(queue, cpu) != cpu)
		return 0;
	cpu_begins[cpu] = (u64)queue - cpu_places.runqueues_at;
	return cpu_begins[cpu];
}

/* The address of one of this CPU's variables; 0: not known. `at`: its offset, CPU_NOWHERE if the kernel has none. */
static __always_inline u64 cpu_variable(u32 at)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 begin;

	if (at == CPU_NOWHERE)
		return 0;
	begin = cpu_begins[cpu & (BIN_CPUS - 1)];
	if (!begin || cpu >= BIN_CPUS)
		begin = find_cpu_begin(cpu);
	return begin ? begin + at : 0;
}

/* False: the count is not known. */
static __always_inline bool read_preempt_count(u32 *count)
{
	struct task_struct___cpu *task;
	u64 address;

	if (bpf_core_field_exists(struct task_struct___cpu, thread_info.preempt_count)) {
		task = (void *)bpf_get_current_task();
		*count = BPF_CORE_READ(task, thread_info.preempt_count);
		return true;
	}
	address = cpu_variable(cpu_places.preempt_count_at);
	if (!address)
		return false;
	/* A load, where the kernel lets a program make one: 40 ns less than the helper (6.18). */
	if (bpf_rdonly_cast) {
		const struct qspinlock *word =
			bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct qspinlock));

		*count = word->val.counter;
		return true;
	}
	return !bpf_probe_read_kernel(count, sizeof(*count), (void *)address);
}

static __always_inline enum cpu_context cpu_context_now(void)
{
	u32 count;

	if (!cpu_places.hardirq_bits || !read_preempt_count(&count))
		return CPU_CONTEXT_UNKNOWN;
	if (count & cpu_places.nmi_bits)
		return CPU_CONTEXT_NMI;
	if (count & cpu_places.hardirq_bits)
		return CPU_CONTEXT_HARDIRQ;
	return count & PREEMPT_SERVES_SOFTIRQ ? CPU_CONTEXT_SOFTIRQ : CPU_CONTEXT_TASK;
}

#endif
