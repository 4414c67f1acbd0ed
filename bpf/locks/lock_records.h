/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Records and counts of locks.bpf.c. */
#ifndef SEEKMETER_LOCK_RECORDS_H
#define SEEKMETER_LOCK_RECORDS_H

#include "common/bin_epoch.h"

#define LOCK_BIN_SLOTS	  6
#define LOCK_STACK_FRAMES 28 /* 3 or 4 of them belong to the tracing itself */
#define LOCK_SLAB_NAME	  32
#define LOCK_WAITER_NAME  24 /* WORKER_DESC_LEN in linux/workqueue.h, at least */
#define LOCK_HOLDER_STACK_IDS \
	0x40000000 /* ids from here on are in the map holder_stacks, others in `stacks` */

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

/* Kind of task that waited. */
enum lock_waiter {
	LOCK_WAITER_WORKLOAD,	   /* a task of the workload's cgroup */
	LOCK_WAITER_KERNEL_THREAD, /* named by its work */
	LOCK_WAITER_INTERRUPT,	   /* whichever task was interrupted */
	LOCK_WAITER_RECORDER,	   /* the recorder, the session and its children */
	LOCK_WAITER_OTHER,	   /* any other process; without a workload cgroup, every process */
} __attribute__((packed));

struct lock_waiter_id {
	char name
		[LOCK_WAITER_NAME]; /* a kernel thread's work, another process's name; else empty */
	enum lock_waiter who;
	u8 in_workload;
	u8 pad[6];
};

/* State of the holder of a mutex or rwsem when the wait began. */
enum lock_holder_state {
	LOCK_HOLDER_UNKNOWN,	 /* this kind of lock does not record its holder */
	LOCK_HOLDER_NOT_SAMPLED, /* not read: too many waits a second */
	LOCK_HOLDER_NOBODY,	 /* just released, or being handed over */
	LOCK_HOLDER_READERS,	 /* held by readers: the lock does not record them */
	LOCK_HOLDER_RUNNING,	 /* on a CPU */
	LOCK_HOLDER_RUNNABLE,	 /* waiting for a CPU */
	LOCK_HOLDER_IO,		 /* waiting for I/O */
	LOCK_HOLDER_LOCK,	 /* waiting for another lock, asleep */
	LOCK_HOLDER_SLEEPING,	 /* waiting for something else */
} __attribute__((packed));

#define LOCK_STACK_NONE	       -1 /* not kept (counted), or not known */
#define LOCK_STACK_NOT_SAMPLED -2 /* not read: too many waits a second */

/*
 * Waiter, holder, and the chain of waits behind the holder: the holder may wait for another lock, whose holder may
 * wait too. The root is the last task of the chain that was read. This is the key of the sums in the kernel.
 */
struct lock_wait_key {
	u64 lock;
	u64 holder_lock; /* the lock that the holder waited for; 0: none */
	u64 root_lock;	 /* the lock that the root holds; 0: the chain is `lock` only */
	s32 stack_id;
	s32 holder_stack_id;
	s32 root_stack_id;
	enum lock_kind kind;
	enum lock_mode mode;
	enum lock_holder_state holder_state;
	enum lock_holder_state root_state;
	u8 chain; /* locks in the chain; 1: the holder waited for no other lock */
	u8 pad[7];
	char holder_comm[16];
	struct lock_waiter_id waiter;
};

/* Waits on one lock from one call path that ended in one time bin. */
struct lock_wait_record {
	u64 bin_ns;    /* start of the bin */
	u64 length_ns; /* of the bin */
	u64 lock_id;   /* the recorder's number for it */
	u64 spin_ns; /* total time spent spinning; spin_ns + sleep_ns is the time from begin to end */
	u64 sleep_ns;
	u64 count;
	u64 max_ns;	     /* longest single wait */
	u64 failed;	     /* waits ended by a signal, without the lock */
	u64 holder_lock;     /* number of the lock that the holder waited for; 0: none */
	u64 root_lock;	     /* number of the lock that the root holds; 0: lock_id */
	s32 stack_id;	     /* in stack.jsonl; or LOCK_STACK_NONE, LOCK_STACK_NOT_SAMPLED */
	s32 holder_stack_id; /* the holder's when the wait began */
	s32 root_stack_id;
	enum lock_kind kind;
	enum lock_mode mode;
	u8 in_workload; /* the waiter was a task of the workload's cgroup */
	enum lock_holder_state holder_state;
	enum lock_holder_state root_state;
	u8 chain; /* locks in the chain; 0: no holder known */
	enum lock_waiter waiter;
	char holder_comm[16]; /* the holder's name; empty: not known */
	char waiter_name
		[LOCK_WAITER_NAME]; /* a kernel thread's work, another process's name; else empty */
};

struct lock_wait_sum {
	u64 spin_ns;
	u64 sleep_ns;
	u64 count;
	u64 max_ns;
	u64 failed;
};

/*
 * Sums of waits whose call path was not read: few locks, many waits. In a plain array, as a hash map would cost more
 * than the rest of the program, and the waiter holds the lock meanwhile.
 */
#define LOCK_HOT 64

struct lock_hot {
	u64 lock; /* 0: free */
	enum lock_kind kind;
	enum lock_mode mode;
	u8 pad[6];
	struct lock_waiter_id waiter;
	struct lock_wait_sum sum;
	u64 pad_to_lines[5];
};

struct lock_hot_sums {
	struct lock_hot locks[LOCK_HOT];
};

/* A holder's stack, innermost first, 0 after the last. */
struct lock_holder_stack {
	u64 hash;
	u64 frames[LOCK_STACK_FRAMES];
};

/* Ways to look up the object that a lock lies in; which of them this kernel offers. */
struct lock_object_lookups {
	u64 vmemmap_base; /* addresses of these variables of the kernel; 0: not known */
	u64 page_offset_base;
	u64 vmalloc_base;
	u8 kmem_cache; /* the kernel has bpf_get_kmem_cache() */
};

/* The object that a lock lies in, read while the lock was held. */
struct lock_object {
	char slab[LOCK_SLAB_NAME]; /* the slab cache's name; empty: not in a slab object */
	u32 offset;		   /* of the lock in the object, if the slab has the usual size */
	u32 other_offset;	   /* the same if the slab has the smaller size (lock_object.h) */
	u32 object_bytes;	   /* size that the cache was created for */
	u32 place_bytes;	   /* from one object to the next */
	u32 merged;		   /* the kernel merged several caches into this one */
	u32 dev;		   /* its file system, as s_dev */
	u64 ino;		   /* the inode the lock is in; 0: in none, or its number is 0 */
	u64 inode;		   /* where struct inode is; 0: in none */
	u64 last_ino;		   /* the inode's number when it was last read */
	u64 several;		   /* times that the object had become another inode */
};

/*
 * Counts of one CPU. Exact: each is changed by one program, and the kernel never nests a program on a CPU.
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
	u64 no_stack;	      /* waits whose stack could not be kept */
	u64 not_sampled;      /* waits whose call path was not read: too many a second */
	u64 holders;	      /* holders read */
	u64 no_holder_stack;  /* holders off their CPU whose stack could not be kept */
	u64 nested;	      /* waits begun inside another wait */
	u64 end_missed_begin; /* waits dropped: a new wait shows that their end was missed */
	u64 percpu_untried;   /* see is_untried_percpu_writer() */
	/* contention_end */
	u64 ends;
	u64 counted;
	u64 map_full;
	u64 map_busy;
	u64 late;	    /* the recorder has not emptied the bin's map in time */
	u64 not_begun;	    /* ends without a begin: open at the start, or missed */
	u64 end_missed_end; /* waits dropped: an outer wait ended first */
	/* sched_switch */
	u64 no_switch_stack; /* tasks switched out whose stack was not kept: too many a second */
};

#endif
