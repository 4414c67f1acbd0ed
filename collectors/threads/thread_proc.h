/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads as /proc shows them: those that live when the recording begins, and the kernel's counts of a living thread. */
#ifndef SEEKMETER_THREAD_PROC_H
#define SEEKMETER_THREAD_PROC_H

#include <stdbool.h>
#include <stdint.h>

struct thread_slot;
struct thread_truth;

/* Which counts this kernel keeps. */
struct thread_proc_kept {
	bool times; /* schedstat */
	bool io;
	bool blkio; /* kernel.task_delayacct was on when asked first */
};

struct thread_proc_kept thread_proc_kept(void);

/* Calls `each` for every thread; is_leader: of its process. False: /proc can't be read. */
bool thread_proc_each(void (*each)(int tid, int tgid, bool is_leader));

/* Fills in names, ids, state and counts of a thread. False: it is gone. */
bool thread_proc_read(int tid, int tgid, struct thread_slot *slot);

/* Reads the counts of a living thread, but for its delay in I/O. False: it is gone. */
bool thread_proc_truth(int tid, int tgid, struct thread_truth *truth);

/*
 * When a thread that is taken to run since slot->since_ns has left its CPU at the latest, by the scheduler's account; 0: it is
 * gone, or has not.
 */
uint64_t thread_proc_left_cpu(int tid, int tgid, const struct thread_slot *slot, uint64_t now_ns);

/* Reads its present names. */
void thread_proc_names(int tid, int tgid, struct thread_slot *slot);

#endif
