/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The completion under way on this CPU: which request's end is being told to those that wait for it.
 *
 * block.bpf.c notes each completed request (block_rq_complete) before the kernel ends the request's bios. Tasks woken from
 * then on, in the same context, waited for this request. Its end is the end of the softirq or of the device's interrupt,
 * the next completion, or the next task on this CPU.
 *
 * One map for the whole recorder (collectors/recorder/completion.h): each object that includes this header uses it.
 * Without the collector `block` there are no completions.
 */
#ifndef SEEKMETER_COMPLETION_H
#define SEEKMETER_COMPLETION_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* What the CPU executes: a task, or what interrupted it. */
enum cpu_context {
	CPU_CONTEXT_TASK,
	CPU_CONTEXT_SOFTIRQ,
	CPU_CONTEXT_HARDIRQ,
	CPU_CONTEXT_NMI,
	CPU_CONTEXT_UNKNOWN, /* the kernel hides its count */
} __attribute__((packed));

struct block_completion {
	u64 sector; /* the request's first one at its issue; a flush: 0 */
	u32 dev;    /* major << 20 | minor; 0: no completion is under way */
	u32 thread; /* the task that the CPU executes, or has interrupted */
	enum cpu_context context;
	u8 pad[7];
	/* For block.bpf.c only. */
	u64 request;  /* its address; 0: not to be looked at */
	u64 position; /* of its record, in this CPU's ring of completions */
};

/* linux/preempt.h: bits of a CPU's preempt count */
#define PREEMPT_SERVES_SOFTIRQ 0x00000100
#define PREEMPT_IN_HARDIRQ     0x000f0000
#define PREEMPT_IN_NMI	       0x00f00000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/*
 * x86 from Linux kernel commit 64701838bf05 ("x86/percpu: Move preempt_count next to current_task") (in v6.2) to
 * 46e8fff6d45f ("x86/preempt: Move preempt count to percpu hot section") (in v6.15)
 */
struct pcpu_hot {
	int preempt_count;
};

/* Other architectures: asm/thread_info.h */
struct thread_info___counts {
	int preempt_count;
};

struct task_struct___counts {
	struct thread_info___counts thread_info;
};

#pragma clang attribute pop

extern const int __preempt_count __ksym __weak;
extern const struct pcpu_hot pcpu_hot __ksym __weak;

/* False: the kernel hides the count. */
static __always_inline bool read_preempt_count(u32 *count)
{
	if (bpf_core_field_exists(struct task_struct___counts, thread_info.preempt_count)) {
		*count = BPF_CORE_READ((struct task_struct___counts *)bpf_get_current_task(),
				       thread_info.preempt_count);
		return true;
	}
	if (&__preempt_count) {
		*count = *(const int *)bpf_this_cpu_ptr(&__preempt_count);
		return true;
	}
	if (&pcpu_hot) {
		*count = ((const struct pcpu_hot *)bpf_this_cpu_ptr(&pcpu_hot))->preempt_count;
		return true;
	}
	return false;
}

static __always_inline enum cpu_context cpu_context_now(void)
{
	u32 count;

	if (!read_preempt_count(&count))
		return CPU_CONTEXT_UNKNOWN;
	if (count & PREEMPT_IN_NMI)
		return CPU_CONTEXT_NMI;
	if (count & PREEMPT_IN_HARDIRQ)
		return CPU_CONTEXT_HARDIRQ;
	return count & PREEMPT_SERVES_SOFTIRQ ? CPU_CONTEXT_SOFTIRQ : CPU_CONTEXT_TASK;
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct block_completion);
} completions SEC(".maps");

static __always_inline struct block_completion *completion_slot(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&completions, &zero);
}

/* No completion is under way any more. */
static __always_inline void completion_forget(void)
{
	struct block_completion *slot = completion_slot();

	if (slot && slot->dev)
		slot->dev = 0;
}

/*
 * The completion that a wake on this CPU, now, belongs to; NULL: none. What runs in an interrupt of a completion does not
 * belong to it.
 */
static __always_inline struct block_completion *completion_under_way(void)
{
	struct block_completion *slot = completion_slot();

	if (!slot || !slot->dev || slot->thread != (u32)bpf_get_current_pid_tgid() ||
	    slot->context != cpu_context_now())
		return NULL;
	return slot;
}

#endif
