/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a kworker executes: the function and, in words, what for. Part of threads.bpf.c.
 *
 * Read from struct worker when the kworker leaves its CPU, which costs nothing for each work item. A run of several items
 * counts as the last one's. "flush-7:8", "loop8" or "xfs-conv/loop8" is the work queue's name, or what the work has called
 * itself with set_worker_desc() (kernel/workqueue.c).
 */
#ifndef SEEKMETER_THREAD_WORKS_H
#define SEEKMETER_THREAD_WORKS_H

#include "common/kworkers.h"
#include "thread_state.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, THREAD_WORKS);
	__type(key, u32);
	__type(value, struct thread_work);
} works SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREAD_WORKS);
	__type(key, struct thread_work);
	__type(value, u32);
} work_numbers SEC(".maps");

u32 work_count;

/* The number of this work; 0: too many kinds. */
static __noinline u32 number_work(const struct thread_work *work)
{
	u32 *known = bpf_map_lookup_elem(&work_numbers, work), number;
	struct thread_counts *count = counts_here();
	struct thread_work *place;

	if (known)
		return *known;
	if (work_count >= THREAD_WORKS) {
		if (count)
			count->no_work++;
		return 0;
	}
	number = __sync_fetch_and_add(&work_count, 1);
	place = bpf_map_lookup_elem(&works, &number);
	if (!place)
		return 0;
	*place = *work;
	number++;
	bpf_map_update_elem(&work_numbers, work, &number, BPF_ANY);
	return number;
}

/*
 * The number of the work that this kworker executes, or, if may_be_last, that it has executed last; 0: none. The slot
 * remembers the last one.
 */
static __noinline u32 work_of(struct task_struct *task, struct thread_slot *slot, bool may_be_last)
{
	struct worker *worker = worker_of(task);
	struct thread_work work = {};
	const u64 *one = (void *)&work, *other = (void *)&slot->work;

	if (!worker)
		return 0;
	work.function = (u64)BPF_CORE_READ(worker, current_func);
	if (!work.function && may_be_last && bpf_core_field_exists(worker->last_func))
		work.function = (u64)BPF_CORE_READ(worker, last_func);
	if (!work.function)
		return 0;
	BPF_CORE_READ_STR_INTO(&work.name, worker, desc);
	if (one[0] != other[0] || one[1] != other[1] || one[2] != other[2] || one[3] != other[3]) {
		slot->work = work;
		slot->work_number = number_work(&work);
	}
	return slot->work_number;
}

#endif
