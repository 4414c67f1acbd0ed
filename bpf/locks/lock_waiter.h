/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Kind and name of a waiter: workload, recorder, kernel thread, interrupt or other process.
 *
 * A kworker's name is only a number ("kworker/u8:3"). Its work is named in struct worker: by the workqueue's name,
 * or by the work itself with set_worker_desc() (kernel/workqueue.c): "loop0", "xfs-conv/sda1", "flush-7:0".
 * A thread's full name is in struct kthread, where task_struct cuts it at 15 characters (Linux kernel commit
 * d6986ce24fc0 ("kthread: dynamically allocate memory to store kthread's full name") (in v5.17)). Which file system
 * or disk such a name belongs to is found by the analysis, which knows the devices.
 */
#ifndef SEEKMETER_LOCK_WAITER_H
#define SEEKMETER_LOCK_WAITER_H

#include "lock_state.h"
#include "common/kworkers.h"
#include "common/workload_cgroup.h"

/* The name must be all zero before: a shorter one written over a longer one would keep its end. */
static __always_inline void name_kernel_thread(struct lock_waiter_id *waiter,
					       struct task_struct___who *task, u32 flags)
{
	struct kthread *kthread = kthread_of(task);
	char *full_name = NULL;

	if (kthread && flags & PF_WQ_WORKER) {
		struct worker *worker = BPF_CORE_READ(kthread, data);

		if (BPF_CORE_READ(worker, current_work))
			BPF_CORE_READ_STR_INTO(&waiter->name, worker, desc);
		else
			__builtin_memcpy(waiter->name, "kworker", sizeof("kworker"));
		return;
	}
	if (kthread && bpf_core_field_exists(kthread->full_name))
		full_name = BPF_CORE_READ(kthread, full_name);
	if (full_name)
		bpf_probe_read_kernel_str(waiter->name, sizeof(waiter->name), full_name);
	else
		BPF_CORE_READ_STR_INTO(&waiter->name, task, comm);
}

/* The workload's tasks get no name: there may be thousands, and each name would need a separate sum. */
static __always_inline void note_waiter(struct lock_waiter_id *waiter, bool in_interrupt)
{
	struct task_struct___who *task = (void *)bpf_get_current_task();
	u32 flags = BPF_CORE_READ(task, flags);
	s32 tgid = BPF_CORE_READ(task, tgid);

	waiter->who = LOCK_WAITER_INTERRUPT;
	if (in_interrupt)
		return;
	if (in_workload_cgroup()) {
		waiter->who = LOCK_WAITER_WORKLOAD;
		waiter->in_workload = 1;
	} else if (flags & PF_KTHREAD) {
		waiter->who = LOCK_WAITER_KERNEL_THREAD;
		name_kernel_thread(waiter, task, flags);
	} else if (is_ours(task, tgid)) {
		waiter->who = LOCK_WAITER_RECORDER;
	} else {
		waiter->who = LOCK_WAITER_OTHER;
		waiter->in_workload = !have_cgroup; /* without a workload cgroup every process is */
		BPF_CORE_READ_STR_INTO(&waiter->name, task, comm);
	}
}

#endif
