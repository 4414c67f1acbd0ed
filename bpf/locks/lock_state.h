/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Open waits, and the maps that the parts of locks.bpf.c share.
 *
 * A wait is open from contention_begin to contention_end. Waits nest: an interrupt may wait inside a spinning wait on the
 * same CPU. Spinning kinds have a small stack of open waits per CPU, sleeping kinds one per task.
 */
#ifndef SEEKMETER_LOCK_STATE_H
#define SEEKMETER_LOCK_STATE_H

#include "common/bin_maps.h"

/* include/trace/events/lock.h; macros there, so the BTF does not know these. */
#define LCB_F_SPIN   1U
#define LCB_F_READ   2U
#define LCB_F_WRITE  4U
#define LCB_F_RT     8U
#define LCB_F_PERCPU 16U
#define LCB_F_MUTEX  32U

#define DEPTH		   8 /* waits open at once; a power of two */
#define PATHS_WINDOW_SHIFT 23
#define PATHS_FULL	   128
#define PATHS_ONE_IN	   64
#define SPIN_EXPIRY_NS \
	4000000000ULL /* no real wait spins that long (the watchdog's limit is 20 s) */
#define SLEEP_EXPIRY_NS	   60000000000ULL
#define KERNEL_STACK_BYTES 16384 /* x86-64, arm64 */

/* Set before loading. */
const volatile u64 bin_ns = 100000000;
const volatile u32 cpus;

/* Set by the recorder as it empties bins. */
volatile u64 drained_to;
struct bin_epoch epochs[BIN_CPUS];
struct bin_cuts cuts;

struct open_wait {
	struct lock_wait_key key;
	u64 begin_ns;
	u64 phase_ns; /* begin of the present phase, spinning or sleeping */
	u64 spin_ns;  /* phases that are over */
	u64 sleep_ns;
	u32 pid;
	u8 spinning;
};

/*
 * The program that works on the CPU's open waits. An interrupt may wait inside contention_end(): the kernel then skips
 * contention_end() at the end of that wait. Or inside contention_begin(), which is skipped at the wait's begin. Such
 * half waits are counted; they must not touch the open waits that the interrupted program works on.
 */
enum at_work { AT_WORK_NONE, AT_WORK_BEGIN, AT_WORK_END };

struct open_waits {
	u64 stack_pointer; /* see on_task_stack() */
	u32 depth;
	u32 at_work; /* enum at_work; only in cpu_waits */
	struct open_wait wait[DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct open_waits);
} cpu_waits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct open_waits);
} task_waits SEC(".maps");

BIN_MAPS(bins, BPF_MAP_TYPE_PERCPU_HASH, LOCK_BIN_SLOTS, struct lock_wait_key,
	 struct lock_wait_sum);

/* By slot x CPUs + CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LOCK_BIN_SLOTS); /* resized: times CPUs */
	__type(key, u32);
	__type(value, struct lock_hot_sums);
} hot SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 32768);
	__uint(key_size, sizeof(u32));
	__uint(value_size, LOCK_STACK_FRAMES * sizeof(u64));
} stacks SEC(".maps");

/* Stacks read on this CPU in the present window; one per program, as one can interrupt the other. */
struct path_budget {
	u64 window;
	u64 used;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct path_budget);
} wait_paths SEC(".maps"), switch_paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lock_counts);
} counts SEC(".maps");

static __always_inline void set_at_work(struct open_waits *of_cpu, enum at_work what)
{
	barrier();
	of_cpu->at_work = what;
	barrier();
}

/* Index of this open wait; -1: there is none. */
static __always_inline int find_wait(struct open_waits *open, u64 lock, u32 pid)
{
	u32 depth = open->depth;

	for (int i = 0; i < DEPTH; i++) {
		if (i >= depth)
			break;
		if (open->wait[i].key.lock == lock && open->wait[i].pid == pid)
			return i;
	}
	return -1;
}

#endif
