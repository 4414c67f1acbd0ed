/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What the kernel keeps of a kernel thread: its full name, and of a kworker what it executes. */
#ifndef SEEKMETER_KWORKERS_H
#define SEEKMETER_KWORKERS_H

#include "tasks.h"

#define WORKER_DESC_LEN 24 /* linux/workqueue.h */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct work_struct;

/* kernel/workqueue_internal.h */
struct worker {
	struct work_struct *current_work; /* NULL: idle, or about to take its next work */
	void *current_func;		  /* likewise */
	void *last_func;
	char desc[WORKER_DESC_LEN];
};

/* kernel/kthread.c */
struct kthread {
	void *data; /* of a kworker its struct worker */
	char *full_name;
};

#pragma clang attribute pop

/* NULL: a kernel before 5.17 (tasks.h). Of a kernel thread only. */
static __always_inline struct kthread *kthread_of(void *of)
{
	struct task_struct___who *task = of;

	return bpf_core_field_exists(task->worker_private) ? BPF_CORE_READ(task, worker_private)
							   : NULL;
}

/* Of a kworker only. */
static __always_inline struct worker *worker_of(void *task)
{
	struct kthread *kthread = kthread_of(task);

	return kthread ? BPF_CORE_READ(kthread, data) : NULL;
}

/* The address of the function that this kworker executes; 0: none, or not known. */
static __always_inline u64 function_of_kworker(void *task)
{
	struct worker *worker = worker_of(task);

	return worker ? (u64)BPF_CORE_READ(worker, current_func) : 0;
}

#endif
