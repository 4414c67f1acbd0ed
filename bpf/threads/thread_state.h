/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Settings, maps and kernel types that the parts of threads.bpf.c share. */
#ifndef SEEKMETER_THREAD_STATE_H
#define SEEKMETER_THREAD_STATE_H

#include "common/bin_maps.h"
#include "common/task_context.h"
#include "common/tasks.h"
#include "common/thread_number.h"
#include "thread_slots.h"

#define TASK_INTERRUPTIBLE   0x001
#define TASK_UNINTERRUPTIBLE 0x002
#define TASK_DEAD	     0x080
#define TASK_NOLOAD	     0x400

#define RING_BYTES	   (1U << 22)
#define KERNEL_STACK_BYTES 16384 /* x86-64, arm64 */

/* Set before loading. */
const volatile u64 bin_ns = 100000000;
/* sched_switch passes prev's state: see sched/sched_state.h */
const volatile bool have_prev_state;
/* The kernel notes the begin of a sleep in I/O in whichever task runs as the sleeper leaves its queue: see is_blkio_unsure(). */
const volatile bool blkio_by_current;

/* Set by the recorder when the recording ends: what the programs see until they are detached is of no thread's time. */
volatile bool is_over;
/* Set by the recorder as it empties bins. */
volatile u64 drained_to;
struct bin_epoch epochs[BIN_CPUS];
struct bin_cuts cuts;

TASK_CONTEXTS
THREAD_NUMBERS

BIN_MAPS(bins, BPF_MAP_TYPE_HASH, THREAD_BIN_SLOTS, struct thread_time_key, struct thread_time_sum);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, THREAD_SLOTS);
	__type(key, u32);
	__type(value, struct thread_slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct thread_counts);
} counts SEC(".maps");

struct cpu_time cpu_times[BIN_CPUS];

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_delay_info {
	u64 blkio_delay;
};

struct task_struct___time {
	int pid;
	int tgid;
	unsigned int flags;
	unsigned int policy;
	unsigned int __state;
	void *stack;
	void *journal_info;
	/* since Linux kernel commit 77da18de55ac ("hung_task: extend hung task blocker tracking to rwsems") (in v6.17) */
	unsigned long blocker;
	struct task_struct___time *group_leader;
	struct task_struct___time *real_parent;
	struct {
		u64 sum_exec_runtime;
	} se;
	struct {
		u64 run_delay;
	} sched_info;
	struct task_delay_info *delays;
	struct {
		u64 rchar, wchar, read_bytes, write_bytes, cancelled_write_bytes;
	} ioac;
	unsigned int cpu;
	struct {
		u32 cpu;
	} thread_info;
	char comm[16];
};

#pragma clang attribute pop

static __always_inline struct thread_counts *counts_here(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counts, &zero);
}

#endif
