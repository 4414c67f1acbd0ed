/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What each task is doing, written by one collector's programs and read by others': the call it is in, the file-system
 * event it works for, the stack it sleeps with.
 *
 * One task storage map for the whole recorder (collectors/recorder/task_context.h); each object that declares
 * TASK_CONTEXTS uses that map. A collector that is off leaves its members 0. Kernels without task storage for tracing
 * programs (Linux kernel commit a10787e6d58c ("bpf: Enable task local storage for tracing programs") (in v5.12)) have no
 * contexts: have_task_contexts is false there.
 */
#ifndef SEEKMETER_TASK_CONTEXT_H
#define SEEKMETER_TASK_CONTEXT_H

#ifdef __bpf__
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#else
#include "common/records.h" /* the recorder makes contexts too: collectors/threads/thread_seeds.c */
#endif

struct task_context {
	/*
	 * calls.bpf.c: the workload's system call on a file. It stays, marked over, until the next one begins: the
	 * last fput(), which may write, runs after the call's exit.
	 */
	u8 call; /* enum call_name + 1; 0: none */
	u8 call_is_over;
	u8 call_target; /* enum call_target */
	u8 in_workload; /* the task was in the workload's cgroup when it last entered a call or was switched */

	/* calls.bpf.c: the task's last page fault on a file outside its calls; ask fault_now(). */
	u8 fault;	  /* CALL_FAULT_READ or _WRITE, + 1; 0: none */
	u8 fault_target;  /* enum call_target */
	u8 event_kind;	  /* below: enum event_kind; 0: none */
	u8 role;	  /* of threads.bpf.c or sched.bpf.c: enum thread_role */
	u32 fault_number; /* see faults_of() */

	/* Collector events: the innermost event that the task works for, as in the event table. */
	u32 event_id;

	/* Collector threads. */
	u32 thread; /* number of the thread in the thread table; 0: not yet */
	s32 sleep_stack_id; /* number in the stack map of the stack that the task last went to sleep with; < 0: none */
	u32 thread_slot; /* threads.bpf.c: place in its array slots, from 1; 0: none */

	u8 is_logged; /* sched.bpf.c: each of its switches and wakes has a record */
	u8 pad[3];
};

#ifdef __bpf__
/* How many page faults of a task have ended: it moves with the end of each, and not while one is tried again. */
static __always_inline u32 faults_of(const struct task_struct *task)
{
	return task->maj_flt + task->min_flt;
}

/* The page fault on a file that the task is in, as the number of its call + 1; 0: none. */
static __always_inline u8 fault_now(const struct task_context *context,
				    const struct task_struct *task)
{
	return context->fault && context->fault_number == faults_of(task) ? context->fault : 0;
}

/* Defines the map in this object, and the setting that says whether it exists. */
#define TASK_CONTEXTS                                    \
	const volatile bool have_task_contexts;          \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE); \
		__uint(map_flags, BPF_F_NO_PREALLOC);    \
		__type(key, int);                        \
		__type(value, struct task_context);      \
	} task_contexts SEC(".maps");                    \
                                                         \
	TASK_CONTEXT_FUNCTIONS

/* NULL: the task has no context yet, or its storage is in use by an interrupted program. */
#define TASK_CONTEXT_FUNCTIONS                                                                   \
	__attribute__((unused)) static __always_inline struct task_context *find_context(        \
		struct task_struct *task)                                                        \
	{                                                                                        \
		return have_task_contexts ? bpf_task_storage_get(&task_contexts, task, NULL, 0)  \
					  : NULL;                                                \
	}                                                                                        \
                                                                                                 \
	__attribute__((unused)) static __always_inline struct task_context *make_context(        \
		struct task_struct *task)                                                        \
	{                                                                                        \
		return have_task_contexts ? bpf_task_storage_get(&task_contexts, task, NULL,     \
								 BPF_LOCAL_STORAGE_GET_F_CREATE) \
					  : NULL;                                                \
	}

#endif

#endif
