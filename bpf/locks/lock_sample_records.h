/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What lock_samples.h and the recorder hand each other, beside struct lock_sample_record. */
#ifndef SEEKMETER_LOCK_SAMPLE_RECORDS_H
#define SEEKMETER_LOCK_SAMPLE_RECORDS_H

#include "lock_records.h"

/* Samples a second and CPU: a prime, so that it does not keep step with the tick or with what the tick starts. */
#define SAMPLE_HZ	 997
#define SAMPLE_PERIOD_NS (1000000000ULL / SAMPLE_HZ)
#define SPIN_RANGES	 64

/* What it means that a CPU was found in a function. */
enum spin_range_kind {
	SPIN_NOT,	 /* no spinning */
	SPIN_CPU,	 /* waits for a spinlock or rwlock; its wait, if seen, is open on the CPU */
	SPIN_CPU_HALTED, /* the same if such a wait is open, or just an idle CPU */
	SPIN_TASK,	 /* waits for a mutex or rwsem; its wait, if seen, is open for the task */
	SPIN_MUTEX,	 /* spins while a mutex wait is open and spinning; does other things too */
	SPIN_RWSEM,	 /* spins until an rwsem wait is open; does other things then */
	SPIN_HELPER,	 /* called by functions that spin, and by others: look at the caller */
};

/* What a CPU was found at when it was sampled. */
enum lock_doing {
	LOCK_DOING_SPIN_SEEN,	/* spinning, in a wait that the tracepoints show too */
	LOCK_DOING_SPIN_UNSEEN, /* spinning, in a wait that they don't show */
	LOCK_DOING_HOLDING,	/* running while it holds a mutex or rwsem that others wait for */
} __attribute__((packed));

/* CPU samples of one kind from one call path in one time bin. */
struct lock_sample_key {
	u64 lock; /* holding: which; spinning: 0 */
	s32 stack_id;
	enum lock_doing doing;
	u8 pad[3];
	struct lock_waiter_id task; /* the task that was found */
};

struct lock_sample_record {
	u64 bin_ns;
	u64 length_ns; /* of the bin */
	u64 lock_id;   /* holding: which; spinning: 0, not known */
	u64 count;     /* samples; each stands for period_ns of a CPU's time */
	u64 period_ns;
	s32 stack_id;
	enum lock_doing doing;
	u8 in_workload; /* the task that was found */
	enum lock_waiter waiter;
	char waiter_name[LOCK_WAITER_NAME];
};

struct spin_range {
	u64 begin, end; /* kernel text; end not included */
	u64 kind;	/* enum spin_range_kind */
};

/* Counts of one CPU. spinning + holding = counted + map_full + map_busy + late */
struct lock_sample_counts {
	u64 samples;
	u64 spinning; /* found in a spinning function */
	u64 holding; /* found holding what others wait for; may be spinning for something else as well */
	u64 no_stack;
	u64 counted;
	u64 map_full;
	u64 map_busy;
	u64 late; /* the recorder had not emptied the bin's map in time */
};

#endif
