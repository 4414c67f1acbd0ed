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

#include <bpf/bpf_helpers.h>

#include "common/cpu_context.h"

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
