/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records and counts of holds.bpf.c. */
#ifndef SEEKMETER_HOLD_RECORDS_H
#define SEEKMETER_HOLD_RECORDS_H

#include "locks/lock_records.h"

#define HOLD_BIN_SLOTS 6

/* Acquisitions of one lock in one time bin; a hold counts in the bin in which it ends. */
struct hold_record {
	u64 bin_ns;
	u64 length_ns; /* of the bin */
	u64 lock_id;
	u64 acquired;	 /* acquisitions in this bin */
	u64 try_failed;	 /* trylocks that did not get it */
	u64 holds;	 /* holds that ended in this bin */
	u64 hold_ns;	 /* total time of these holds */
	u64 max_hold_ns; /* the longest */
	enum lock_kind kind;
	enum lock_mode mode;
	u8 in_workload; /* by tasks of the workload's cgroup */
};

/* Key and value of the sums in the kernel. */
struct hold_key {
	u64 lock;
	enum lock_kind kind;
	enum lock_mode mode;
	u8 in_workload;
	u8 pad[5];
};

struct hold_sum {
	u64 acquired;
	u64 try_failed;
	u64 holds;
	u64 hold_ns;
	u64 max_hold_ns;
};

/*
 * Counts of one CPU, added to atomically: the programs can preempt each other.
 *   events that can be recorded: taken + try_failed + (released - not_taken - other_task)
 *   recorded = that - map_full - map_busy - late
 *   holds begun = taken - too_deep - no_storage; of these, end_missed were dropped
 */
struct hold_counts {
	u64 taken; /* acquisitions */
	u64 try_failed;
	u64 released;
	u64 not_taken;	/* releases without an acquisition: held at the start, or missed */
	u64 other_task; /* releases by a task that is not the owner */
	u64 too_deep;	/* holds not begun: the task, or the map of semaphores, holds too many */
	u64 no_storage; /* the same: the task's storage could not be had */
	u64 end_missed; /* holds dropped: a later event shows that their end was missed */
	u64 map_full;
	u64 map_busy;
	u64 late; /* the recorder has not emptied the bin's map in time */
};

#endif
