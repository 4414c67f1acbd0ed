/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What threads.bpf.c and the recorder share beside the table's record: a slot for each living thread, keys and sums of
 * time, and what is passed through the ring.
 */
#ifndef SEEKMETER_THREAD_SLOTS_H
#define SEEKMETER_THREAD_SLOTS_H

#include "thread_records.h"

#define THREAD_BIN_SLOTS    6
#define THREAD_SLOT_BITS    13
#define THREAD_SLOTS	    (1 << THREAD_SLOT_BITS) /* threads alive, and those that are not written yet */
#define THREAD_WAIT_CELLS   4
#define THREAD_SLEEP_CELLS  4
#define THREAD_CELLS	    (1 + THREAD_WAIT_CELLS + THREAD_SLEEP_CELLS)
#define THREAD_SLOT_TRIES   64
#define THREAD_WORKS	    4096 /* kinds of work: function and name */
#define THREAD_STACK_FRAMES 40
#define THREAD_ROLES	    (THREAD_ROLE_IDLE + 1)
#define THREAD_NAME	    32

/* Time is summed by this key, and bin. A thread's interval is of one key. */
struct thread_time_key {
	u64 lock; /* its address; 0: none */
	u32 thread;
	s32 stack_id; /* in the map stacks; -1: none */
	u32 work;     /* in the array works, from 1; 0: none */
	enum thread_state state;
	enum thread_role by;
	enum call_name call;
	enum call_target call_target;
	enum thread_lock lock_kind;
	u8 in_transaction;
	u8 pad[6];
};

struct thread_time_sum {
	u64 ns;
	u64 max_ns;
	u32 count;
	u32 samples;
	u32 samples_user;
	u32 samples_softirq;
	u32 samples_spin;
	u32 pad;
};

/* What the ring carries. */
enum thread_event_kind {
	THREAD_EVENT_INTERVAL, /* one that crosses the border of bins, or that found no room */
	THREAD_EVENT_SUM,      /* of one key in one bin */
	THREAD_EVENT_ENDED,    /* a thread has: its slot, from 1 */
};

struct thread_event {
	enum thread_event_kind kind;
	u32 slot;
	u64 begin_ns, end_ns;
	u64 whole_ns; /* length of the interval that ends here; 0: it goes on */
	u64 bin;      /* of a sum */
	struct thread_time_key key;
	struct thread_time_sum sum;
};

/* The sum of one key in the bin that the thread's cells are of. */
struct thread_cell {
	struct thread_time_key key;
	struct thread_time_sum sum;
};

#define THREAD_NOT_KEPT (~0ULL)

/* The kernel's own counts of a thread, to compare with; or THREAD_NOT_KEPT. */
struct thread_truth {
	u64 run_ns;
	u64 run_delay_ns;
	u64 blkio_delay_ns;
	u64 rchar;
	u64 wchar;
	u64 read_bytes;
	u64 write_bytes;
	u64 cancelled_write_bytes;
};

/* What a kworker executes. */
struct thread_work {
	u64 function; /* address */
	char name[THREAD_WORK_NAME];
};

enum thread_slot_use {
	THREAD_SLOT_FREE,
	THREAD_SLOT_TAKEN,
	THREAD_SLOT_ENDED, /* the recorder writes the thread's line, and frees the slot */
};

/*
 * Where a thread's slot is looked for, in the order of `i`. The first place is by Knuth's multiplicative hash: consecutive
 * numbers, such as those of all threads that live at the start, lie apart, so that a free slot is near.
 */
static inline __attribute__((always_inline)) u32 thread_slot_place(u32 number, u32 i)
{
	return ((number * 0x9E3779B9U >> (32 - THREAD_SLOT_BITS)) + i) % THREAD_SLOTS;
}

/*
 * A thread and its open interval. What the programs change here is changed under the lock of the run queue that the
 * thread is on: no two CPUs do so at once.
 */
struct thread_slot {
	u32 use; /* enum thread_slot_use */
	u32 number;
	u64 since_ns; /* begin of the open interval, and the bin it is in */
	u64 since_bin;
	struct thread_time_key key; /* of the open interval */
	u32 cpu;		    /* runnable: the CPU it waits for */
	enum thread_role role;
	u8 is_kernel_thread;
	u8 is_guessed;	    /* the state is as /proc said, no event has been seen yet */
	u8 is_blkio_unsure; /* the kernel's count of its delay in I/O may be wrong */
	/* Runnable: CPU time of that CPU by role, when the thread began to wait. Afterwards: who ran meanwhile, how long. */
	u64 ran_ns[THREAD_ROLES];
	/* The wait for a CPU that ended and is not added yet; end 0: none. Of kworkers: see add_wait_of_run(). */
	u64 wait_begin_ns, wait_begin_bin;
	u64 wait_end_ns, wait_end_bin;
	/* The last wait for a CPU, and the sleep before, as far as cells have them: see run_as_scheduler(). */
	u64 ran_total_ns; /* sum_exec_runtime at the last switch to or from the thread, seen or guessed */
	u64 delayed_total_ns; /* run_delay at the last switch from the thread */
	u64 waited_ns;	      /* for the CPU, in all */
	u64 waited_last_ns;   /* of this, what was counted last, for the role: */
	u64 waited_by;
	u64 slept_ns; /* before that wait; 0: it did not begin with a wake-up */
	s32 slept_stack_id;
	u32 pad_to_word;
	u64 cells_bin; /* the bin of the sums in cells */
	struct thread_cell cells[THREAD_CELLS];

	u64 switches;
	u64 cgroup; /* cgroup2 id, looked up in each bin that the thread ran in, the last one; 0: not known */
	u64 cgroup_bin;
	u64 start_ns, end_ns;
	struct thread_truth before, after;
	struct thread_work work; /* the last one, and its number */
	u32 work_number;
	s32 tid, tgid, parent_tgid;
	s32 proc_tid, proc_tgid; /* as /proc shows them; 0: born during the recording */
	char comm[THREAD_NAME];
	char process[16];
};

/* A kernel stack, innermost frame first, 0 after the last. */
struct thread_stack {
	u64 hash;
	u64 frames[THREAD_STACK_FRAMES];
};

/* Who runs on a CPU, and who has run; changed and read under the lock of its run queue. */
struct cpu_time {
	u64 since_ns; /* begin of the present run; 0: not known yet */
	u64 ran_ns[THREAD_ROLES];
	u64 role;		/* of the present task */
	u64 last_ns, last_role; /* of the run before */
	u64 task;		/* address of the present task; 0: it has no slot */
	u64 slot;		/* its slot */
	u64 pad[2];
};

/* Counts of one CPU. */
struct thread_counts {
	u64 switches;
	u64 wakes;
	u64 intervals; /* that ended */
	u64 summed;
	u64 passed; /* to the recorder, through the ring */
	u64 ring_full;
	u64 late; /* of `passed`: the recorder has not emptied the bin's map in time */
	u64 map_full, map_busy;
	u64 wake_missed;  /* a sleep that ended at a switch to the thread */
	u64 run_missed;	  /* a run whose begin was not seen */
	u64 end_missed;	  /* a run whose end was not seen */
	u64 sleep_missed; /* a sleep whose begin was not seen */
	u64 wait_missed;  /* a wait for a CPU whose begin was not seen */
	u64 no_context;	  /* switches from a task without a slot */
	u64 no_slot;	  /* new threads */
	u64 no_work;	  /* kinds of work, too many */
	u64 no_storage;
	u64 stacks_known;  /* sleeps whose stack was found among the known ones */
	u64 stacks_walked; /* the others */
	u64 stacks_lost;   /* of these, not kept */
	u64 stacks_learnt; /* of these, known from then on */
	u64 samples;
	u64 samples_idle;
	u64 samples_lost;
};

#endif
