/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Kinds of tasks: kernel threads, Seekmeter's own processes, all others. For locks.bpf.c and block.bpf.c.
 */
#ifndef SEEKMETER_TASKS_H
#define SEEKMETER_TASKS_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* linux/sched.h */
#define PF_WQ_WORKER	  0x00000020
/*
 * The task writes for another device: nfsd, or the worker of a loop device whose file is on this disk. Named so since
 * Linux kernel commit a37b0715ddf3 ("mm/writeback: replace PF_LESS_THROTTLE with PF_LOCAL_THROTTLE") (in v5.8), with
 * the bit of the older name.
 */
#define PF_LOCAL_THROTTLE 0x00100000
#define PF_KTHREAD	  0x00200000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kthread;

struct task_struct___who {
	unsigned int flags;
	int tgid;
	struct task_struct___who *real_parent;
	/*
	 * since Linux kernel commit e32cf5dfbe22 ("kthread: Generalize pf_io_worker so it can point to struct kthread")
	 * (in v5.17)
	 */
	struct kthread *worker_private;
	char comm[16];
};

#pragma clang attribute pop

/*
 * Set by note_recorder(), which the recorder runs once and attaches to nothing. Process ids of the initial namespace,
 * whatever namespace the recorder is in.
 */
s32 recorder_tgid;
s32 session_tgid; /* the recorder's parent, which also starts blktrace, perf, sync, fsck… */

SEC("raw_tp")
int note_recorder(void *ctx)
{
	struct task_struct___who *task = (void *)bpf_get_current_task();

	recorder_tgid = BPF_CORE_READ(task, tgid);
	session_tgid = BPF_CORE_READ(task, real_parent, tgid);
	return 0;
}

/* Is this process the recorder, the session, or a child of the session? */
static __always_inline bool is_ours(struct task_struct___who *task, s32 tgid)
{
	return tgid == recorder_tgid || tgid == session_tgid ||
	       BPF_CORE_READ(task, real_parent, tgid) == session_tgid;
}

#endif
