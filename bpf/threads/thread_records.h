/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The record of threads.bpf.c. */
#ifndef SEEKMETER_THREAD_RECORDS_H
#define SEEKMETER_THREAD_RECORDS_H

#include "calls/call_records.h"
#include "common/bin_epoch.h"
#include "thread_roles.h"

#define THREAD_WORK_NAME 24 /* WORKER_DESC_LEN in linux/workqueue.h */

enum thread_state {
	THREAD_STATE_RUNNING,
	THREAD_STATE_RUNNABLE, /* waits for a CPU */
	THREAD_STATE_SLEEPING, /* S, or idle: kernel threads that wait for work */
	THREAD_STATE_BLOCKED,  /* D */
	THREAD_STATE_IO_WAIT,  /* S or D, marked in_iowait by the kernel */
	THREAD_STATE_OTHER,    /* stopped, traced, or dead and not yet gone */
} __attribute__((packed));

/* The kind of lock that a thread sleeps for, where the kernel says so (task_struct.blocker). */
enum thread_lock {
	THREAD_LOCK_NONE,
	THREAD_LOCK_MUTEX,
	THREAD_LOCK_SEMAPHORE,
	THREAD_LOCK_RWSEM_READ,
	THREAD_LOCK_RWSEM_WRITE,
} __attribute__((packed));

/*
 * Time of one thread in one state in one time bin. An interval that crosses the border of bins is split there. The
 * bins that an interval fills wholly may be one row: length_ns is then theirs together, and ns is as much. No row
 * crosses the border of a phase.
 */
struct thread_time_record {
	u64 bin_ns;    /* start of the bin */
	u64 length_ns; /* of the bin, or of the bins */
	u64 ns;
	u64 max_ns; /* longest interval that ended in the bin, its parts in earlier bins included */
	u64 lock_id;	     /* the lock's number in the lock table; 0: none, or not known */
	u32 count;	     /* intervals that ended in the bin */
	u32 thread;	     /* number in the thread table; 0: all without one */
	s32 stack_id;	     /* of a sleep, in the stack table; -1: none */
	u32 work_id;	     /* a kworker's function, in the function table; 0: none */
	u32 samples;	     /* running: hits of the CPU clock, SAMPLE_HZ a second */
	u32 samples_user;    /* of these: in user mode */
	u32 samples_softirq; /* in a softirq on the thread's back; no sample hits a hard interrupt */
	u32 samples_spin;    /* spinning for a lock */
	enum thread_state state;
	enum thread_role by; /* runnable: who ran on the CPU meanwhile; else unknown */
	enum call_name call; /* of a sleep: the file-system call that the thread was in, or none */
	enum call_target call_target;
	enum thread_lock lock_kind;
	u8 in_transaction; /* of a sleep: current->journal_info was set */
	/* What a kworker says it works on: "flush-7:8", "loop8"; else empty. */
	char work_name[THREAD_WORK_NAME];
};

#endif
