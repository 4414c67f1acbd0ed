/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Slots of threads, and who the threads are. Part of threads.bpf.c. */
#ifndef SEEKMETER_THREAD_IDENTITY_H
#define SEEKMETER_THREAD_IDENTITY_H

#include "common/cgroup_id.h"
#include "common/workload_cgroup.h"
#include "thread_state.h"
#include "thread_works.h"

/* NULL: the task has none. */
static __always_inline struct thread_slot *slot_of(const struct task_context *context)
{
	u32 at;

	if (!context || !context->thread_slot)
		return NULL;
	at = context->thread_slot - 1;
	return bpf_map_lookup_elem(&slots, &at);
}

/* Whose task it is, as far as the kernel can tell without the task's own cgroup. */
static __always_inline enum thread_role role_outside(struct task_struct *task)
{
	struct task_struct___time *of = (void *)task;

	if (of->flags & PF_KTHREAD)
		return THREAD_ROLE_KERNEL;
	if (is_ours((void *)task, of->tgid))
		return THREAD_ROLE_RECORDER;
	return have_cgroup ? THREAD_ROLE_OTHER : THREAD_ROLE_WORKLOAD;
}

/* The current task's, or its child's, which is born into the same cgroup. */
static __always_inline enum thread_role role_of(struct task_struct *task)
{
	struct task_struct___time *of = (void *)task;

	if (!(of->flags & PF_KTHREAD) && in_workload_cgroup())
		return THREAD_ROLE_WORKLOAD;
	return role_outside(task);
}

static __always_inline void note_role(struct thread_slot *slot, struct task_context *context,
				      enum thread_role role)
{
	slot->role = role;
	context->role = role;
	context->in_workload = role == THREAD_ROLE_WORKLOAD;
}

/* Reads the names, which may change while the thread lives. */
static __separate int read_names(struct thread_slot *slot, struct task_struct *task)
{
	struct task_struct___time *of = (void *)task;
	struct kthread *kthread = of->flags & PF_KTHREAD ? kthread_of(task) : NULL;
	char *full_name = NULL;

	if (kthread && bpf_core_field_exists(kthread->full_name))
		full_name = BPF_CORE_READ(kthread, full_name);
	__builtin_memset(slot->comm, 0, sizeof(slot->comm));
	if (full_name)
		bpf_probe_read_kernel_str(slot->comm, sizeof(slot->comm), full_name);
	else
		BPF_CORE_READ_STR_INTO(&slot->comm, of, comm);
	BPF_CORE_READ_STR_INTO(&slot->process, of, group_leader, comm);
	return 0;
}

/* Tasks born while kernel.task_delayacct was off have no such count. */
static __always_inline u64 blkio_delay_of(struct task_struct___time *task)
{
	struct task_delay_info *delays;

	if (!bpf_core_field_exists(task->delays))
		return THREAD_NOT_KEPT;
	delays = BPF_CORE_READ(task, delays);
	return delays ? BPF_CORE_READ(delays, blkio_delay) : THREAD_NOT_KEPT;
}

static __separate int read_truth(struct thread_truth *truth, struct task_struct *task)
{
	struct task_struct___time *of = (void *)task;

	truth->run_ns = BPF_CORE_READ(of, se.sum_exec_runtime);
	if (bpf_core_field_exists(of->sched_info.run_delay))
		truth->run_delay_ns = BPF_CORE_READ(of, sched_info.run_delay);
	truth->blkio_delay_ns = blkio_delay_of(of);
	if (bpf_core_field_exists(of->ioac.rchar)) {
		truth->rchar = BPF_CORE_READ(of, ioac.rchar);
		truth->wchar = BPF_CORE_READ(of, ioac.wchar);
	}
	if (bpf_core_field_exists(of->ioac.read_bytes)) {
		truth->read_bytes = BPF_CORE_READ(of, ioac.read_bytes);
		truth->write_bytes = BPF_CORE_READ(of, ioac.write_bytes);
		truth->cancelled_write_bytes = BPF_CORE_READ(of, ioac.cancelled_write_bytes);
	}
	return 0;
}

static __separate int fill_slot(struct thread_slot *slot, struct task_struct *task, u32 number)
{
	struct task_struct___time *of = (void *)task;

	slot->number = slot->key.thread = number;
	slot->key.stack_id = -1;
	slot->key.call = CALL_NONE;
	slot->key.call_target = CALL_TARGET_UNKNOWN;
	slot->tid = BPF_CORE_READ(of, pid);
	slot->tgid = BPF_CORE_READ(of, tgid);
	slot->parent_tgid = BPF_CORE_READ(of, real_parent, tgid);
	slot->is_kernel_thread = (BPF_CORE_READ(of, flags) & PF_KTHREAD) != 0;
	slot->ran_total_ns = BPF_CORE_READ(of, se.sum_exec_runtime);
	slot->cgroup = cgroup2_id_of_task(task);
	return read_names(slot, task);
}

/* Takes a slot for the task. The recorder takes slots, too (collectors/threads/thread_seeds.c). */
static __noinline int take_slot(struct task_struct *task, struct task_context *context)
{
	u32 number = thread_number(context), at;
	struct thread_slot *slot;

	for (u32 i = 0; i < THREAD_SLOT_TRIES; i++) {
		at = thread_slot_place(number, i);
		slot = bpf_map_lookup_elem(&slots, &at);
		if (!slot)
			return 0;
		if (__sync_val_compare_and_swap(&slot->use, THREAD_SLOT_FREE, THREAD_SLOT_TAKEN) !=
		    THREAD_SLOT_FREE)
			continue;
		fill_slot(slot, task, number);
		context->sleep_stack_id = -1;
		context->thread_slot = at + 1;
		return 1;
	}
	return 0;
}

#endif
