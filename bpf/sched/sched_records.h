/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records and shared state of sched.bpf.c. */
#ifndef SEEKMETER_SCHED_RECORDS_H
#define SEEKMETER_SCHED_RECORDS_H

#include "common/cpu_records.h"
#include "threads/thread_roles.h"

/* How a task leaves its CPU. */
enum switch_state {
	SWITCH_STATE_PREEMPTED, /* it can go on: preempted, yielded, or woken before it had left */
	SWITCH_STATE_SLEEPING, /* S: until it is woken, or by a signal; a kernel thread that is idle */
	SWITCH_STATE_BLOCKED, /* D: until it is woken */
	SWITCH_STATE_IO_WAIT, /* D or S in io_schedule() */
	SWITCH_STATE_ENDED,
	SWITCH_STATE_OTHER, /* stopped, traced, parked, frozen */
} __attribute__((packed));

/* What made a CPU wake a task. */
enum wake_cause {
	WAKE_CAUSE_NONE,    /* a task did, in its own right; or not known, in an interrupt */
	WAKE_CAUSE_REQUEST, /* an interrupt that completes a request of a disk or a bio of a volume */
	WAKE_CAUSE_WORK,    /* a kworker's work item */
	WAKE_CAUSE_TIMER,   /* an interrupt that runs an expired timer */
	WAKE_CAUSE_NET,	    /* an interrupt that takes in network packets */
} __attribute__((packed));

/*
 * One task gives the CPU to another. Threads have numbers (common/thread_number.h); 0: a thread without records of its
 * own, of which only the role is told.
 */
struct switch_record {
	u64 t_ns;
	u32 prev;
	u32 next;
	/* Number of the stack that prev goes to sleep with, if the collector threads took it; < 0: none. */
	s32 stack_id;
	u16 cpu;
	enum switch_state state; /* of prev */
	enum thread_role prev_role;
	enum thread_role next_role;
};

/* One task is woken, or begins (is_new). */
struct wake_record {
	u64 t_ns;
	/* Cause request: the request's first sector. In the ring, of cause work: the address of the function. */
	u64 sector;
	u32 wakee;
	u32 waker;   /* the task that the CPU ran; in an interrupt it has no part in the wake */
	u32 dev;     /* cause request: of the disk or volume, major << 20 | minor */
	u32 work_id; /* cause work: number of the work's function (table function) */
	u16 cpu;     /* where the waker ran */
	enum cpu_context
		context; /* of the wake; outside tasks the waker is a task that was interrupted */
	enum wake_cause cause;
	u8 sure; /* cause request: seen in the very interrupt that completed the request */
	u8 is_new;
	enum thread_role wakee_role;
	enum thread_role waker_role;
};

/* Counts of one CPU, in whole cache lines. */
struct sched_counts {
	u64 switches;	      /* all of them, of any task */
	u64 wakes;	      /* the same, and births */
	u64 skipped_switches; /* of these, while no records were written */
	u64 skipped_wakes;
	u64 full;	/* events for which a ring had no room */
	u64 no_context; /* wakes of a task that could be given no context: they have no record */
	u64 no_storage; /* switches of a task without a context */
	u64 pad;
};

#endif
