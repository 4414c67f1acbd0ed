/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What locks.bpf.c hands to user space. */
#ifndef SEEKMETER_LOCK_RECORDS_H
#define SEEKMETER_LOCK_RECORDS_H

#include "bin_turns.h"

#define LOCK_BIN_SLOTS	  4
#define LOCK_STACK_FRAMES 28 /* 3 or 4 of them belong to the tracing itself */
#define LOCK_SLAB_NAME	  32

enum lock_kind {
	LOCK_KIND_SPINLOCK,
	LOCK_KIND_RWLOCK,
	LOCK_KIND_MUTEX,
	LOCK_KIND_RWSEM,
	LOCK_KIND_PERCPU_RWSEM,
	LOCK_KIND_RTMUTEX,
	LOCK_KIND_SEMAPHORE,
	LOCK_KIND_UNKNOWN,
} __attribute__((packed));

enum lock_mode {
	LOCK_MODE_EXCL,
	LOCK_MODE_READ,
	LOCK_MODE_WRITE,
} __attribute__((packed));

/* Waits on one lock from one call path that ended in one time bin. */
struct lock_wait_record {
	u64 bin_ns;  /* start of the bin */
	u64 lock_id; /* the lock's address */
	u64 spin_ns; /* of all these waits, the time spent spinning; spin + sleep = begin to end */
	u64 sleep_ns;
	u64 count;
	u64 max_ns;	     /* longest single wait */
	u64 failed;	     /* waits given up (a signal): the lock was not taken */
	s32 stack_id;	     /* in stack.jsonl; -1: not kept (counted) */
	s32 holder_stack_id; /* -1: not known */
	enum lock_kind kind;
	enum lock_mode mode;
	u8 in_workload; /* the waiter was a task of the workload's cgroup */
};

/* Key and value of the kernel's sums; one such map a bin. */
struct lock_wait_key {
	u64 lock;
	s32 stack_id;
	enum lock_kind kind;
	enum lock_mode mode;
	u8 in_workload;
	u8 zero;
};

struct lock_wait_sum {
	u64 spin_ns;
	u64 sleep_ns;
	u64 count;
	u64 max_ns;
	u64 failed;
};

/*
 * Counts of one CPU, exact: each is changed by one program only, and the kernel never nests a program on a CPU.
 *   begins = waits + rebegins + too_deep + no_storage
 *   ends   = counted + map_full + map_busy + late + not_begun
 *   waits  = the first four of `ends` + end_missed_* + those still open
 */
struct lock_counts {
	/* contention_begin */
	u64 begins;
	u64 waits;	      /* waits begun */
	u64 rebegins;	      /* a mutex changing between spinning and sleeping */
	u64 too_deep;	      /* more waits nested than there is room for */
	u64 no_storage;	      /* the task's storage could not be had */
	u64 no_stack;	      /* waits begun whose stack could not be kept */
	u64 nested;	      /* waits begun inside another wait */
	u64 end_missed_begin; /* waits forgotten: a new one shows that their end was not seen */
	/* contention_end */
	u64 ends;
	u64 counted;
	u64 map_full;
	u64 map_busy;
	u64 late;	    /* the recorder had not emptied the bin's map in time */
	u64 not_begun;	    /* ends whose begin was not seen: open at the start, or missed */
	u64 end_missed_end; /* waits forgotten: one below them ended first */
};

#endif
