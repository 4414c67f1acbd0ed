/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whose thread a task is.
 *
 * A role is kept in the task's context. The workload's threads and kernel threads keep theirs; any other task may still
 * enter the workload's cgroup, as the workload's first process does.
 */
#ifndef SEEKMETER_THREAD_ROLE_H
#define SEEKMETER_THREAD_ROLE_H

#include "tasks.h"
#include "workload_cgroup.h"

#include "common/records.h"

static __always_inline bool role_is_settled(enum thread_role role)
{
	return role == THREAD_ROLE_WORKLOAD || role == THREAD_ROLE_KERNEL;
}

/* Of a task in its own context, but for interrupts. */
static __always_inline enum thread_role role_of_current(void)
{
	struct task_struct___who *task = (void *)bpf_get_current_task();

	if (in_workload_cgroup())
		return THREAD_ROLE_WORKLOAD;
	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		return THREAD_ROLE_KERNEL;
	if (is_ours(task, BPF_CORE_READ(task, tgid)))
		return THREAD_ROLE_RECORDER;
	return have_cgroup ? THREAD_ROLE_OTHER : THREAD_ROLE_WORKLOAD;
}

/* Of any task: one in the workload's cgroup is "unknown" until it runs. */
static __always_inline enum thread_role role_of_task(struct task_struct *of)
{
	struct task_struct___who *task = (void *)of;

	if (BPF_CORE_READ(task, flags) & PF_KTHREAD)
		return THREAD_ROLE_KERNEL;
	if (is_ours(task, BPF_CORE_READ(task, tgid)))
		return THREAD_ROLE_RECORDER;
	return have_cgroup ? THREAD_ROLE_UNKNOWN : THREAD_ROLE_WORKLOAD;
}

#endif
