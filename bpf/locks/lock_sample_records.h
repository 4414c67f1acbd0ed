/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* CPU samples of locks.bpf.c (lock_samples.h): record, counts, and the ranges of text where the kernel spins. */
#ifndef SEEKMETER_LOCK_SAMPLE_RECORDS_H
#define SEEKMETER_LOCK_SAMPLE_RECORDS_H

#include "lock_records.h"

/* Samples per second and CPU: a prime, so that samples do not keep step with the tick. */
#define SAMPLE_HZ	 997
#define SAMPLE_PERIOD_NS (1000000000ULL / SAMPLE_HZ)
#define SPIN_RANGES	 64

/* How a CPU sample in a function counts as spinning. */
enum spin_range_kind {
	SPIN_NOT, /* the function does not spin */
	SPIN_CPU, /* spins for a spinlock or rwlock; a wait that the tracepoints show is open on the CPU */
	SPIN_CPU_HALTED, /* the same if such a wait is open, else an idle CPU */
	SPIN_TASK, /* spins for a mutex or rwsem; a wait that the tracepoints show is open for the task */
	SPIN_MUTEX,  /* spins while a mutex wait is open and spinning, else does other things */
	SPIN_RWSEM,  /* spins until an rwsem wait is open, then does other things */
	SPIN_HELPER, /* called by functions that spin, and by others: the caller decides */
};

/* The text of one kernel function. */
struct spin_range {
	u64 begin, end; /* end not included */
	u64 kind;	/* enum spin_range_kind */
};

/* What a sampled CPU was doing. */
enum lock_doing {
	LOCK_DOING_SPIN_SEEN,	/* spinning, in a wait that the tracepoints show too */
	LOCK_DOING_SPIN_UNSEEN, /* spinning, in a wait that the tracepoints do not show */
	LOCK_DOING_HOLDING,	/* running with a mutex or rwsem held that others wait for */
} __attribute__((packed));

/* CPU samples of one kind from one call path in one time bin. */
struct lock_sample_key {
	u64 lock; /* the lock held; spinning: 0 */
	s32 stack_id;
	enum lock_doing doing;
	u8 pad[3];
	struct lock_waiter_id task; /* the sampled task */
};

struct lock_sample_record {
	u64 bin_ns;
	u64 length_ns; /* of the bin */
	u64 lock_id;   /* number of the lock held; spinning: 0, not known */
	u64 count;     /* samples; each stands for period_ns of CPU time */
	u64 period_ns;
	s32 stack_id;
	enum lock_doing doing;
	u8 in_workload; /* the sampled task is in the workload's cgroup */
	enum lock_waiter waiter;
	char waiter_name[LOCK_WAITER_NAME];
};

/* Counts of one CPU. spinning + holding = counted + map_full + map_busy + late */
struct lock_sample_counts {
	u64 samples;
	u64 spinning; /* in a spinning function */
	u64 holding;  /* with a lock held that others wait for; may also be in `spinning` */
	u64 no_stack;
	u64 counted;
	u64 map_full;
	u64 map_busy;
	u64 late; /* the recorder has not emptied the bin's map in time */
};

#endif
