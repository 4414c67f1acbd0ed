/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* What holds.bpf.c hands to user space, besides struct hold_record. */
#ifndef SEEKMETER_HOLD_RECORDS_H
#define SEEKMETER_HOLD_RECORDS_H

#include "locks/lock_records.h"

#define HOLD_BIN_SLOTS 6

/* Acquisitions of one lock in one time bin (holds.bpf.c); a hold counts where it ends. */
struct hold_record {
	u64 bin_ns;
	u64 length_ns; /* of the bin */
	u64 lock_id;
	u64 acquired;	 /* times it was taken in this bin */
	u64 try_failed;	 /* trylocks that did not get it */
	u64 holds;	 /* holds that ended in this bin */
	u64 hold_ns;	 /* their time */
	u64 max_hold_ns; /* the longest */
	enum lock_kind kind;
	enum lock_mode mode;
	u8 in_workload; /* by tasks of the workload's cgroup */
};

/* The key of the kernel's sums. */
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
 * Counts of one CPU, added to atomically: the programs can be preempted by one another.
 *   what can be recorded: taken + try_failed + (released - not_taken - other_task)
 *   recorded = that - map_full - map_busy - late
 *   holds begun = taken - too_deep - no_storage; of these, end_missed were forgotten
 */
struct hold_counts {
	u64 taken; /* acquisitions */
	u64 try_failed;
	u64 released;
	u64 not_taken; /* releases of what was not seen to be taken: held at the start, or missed */
	u64 other_task; /* releases by another task than the one that took it */
	u64 too_deep;	/* holds not begun: the task, or the map of semaphores, holds too many */
	u64 no_storage; /* the same: the task's storage could not be had */
	u64 end_missed; /* holds forgotten: something later shows that their end was not seen */
	u64 map_full;
	u64 map_busy;
	u64 late; /* the recorder had not emptied the bin's map in time */
};

#endif
