/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Numbers of threads, 1, 2, 3…, the same in all tables of a run: a tid may be used again, a number is not.
 *
 * The first program to need a thread's number gives it one, in the thread's task context. All objects count with one
 * map, as they do for contexts (collectors/recorder/task_context.h). Two CPUs that number a thread at the same time use
 * up two numbers, of which the thread keeps one.
 */
#ifndef SEEKMETER_THREAD_NUMBER_H
#define SEEKMETER_THREAD_NUMBER_H

#include "kernel.h"
#include "task_context.h"

#include <bpf/bpf_helpers.h>

/* Defines the map in this object; after TASK_CONTEXTS. */
#define THREAD_NUMBERS                                                                            \
	struct {                                                                                  \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                 \
		__uint(map_flags, BPF_F_MMAPABLE);                                                \
		__uint(max_entries, 1);                                                           \
		__type(key, u32);                                                                 \
		__type(value, u32);                                                               \
	} thread_numbers SEC(".maps");                                                            \
                                                                                                  \
	/* 0: the map can't be read. */                                                           \
	__attribute__((unused)) static __always_inline u32 thread_number(struct task_context *of) \
	{                                                                                         \
		u32 zero = 0, number, before, *last;                                              \
                                                                                                  \
		if (of->thread)                                                                   \
			return of->thread;                                                        \
		last = bpf_map_lookup_elem(&thread_numbers, &zero);                               \
		if (!last)                                                                        \
			return 0;                                                                 \
		number = __sync_fetch_and_add(last, 1) + 1;                                       \
		before = __sync_val_compare_and_swap(&of->thread, 0, number);                     \
		return before ? before : number;                                                  \
	}

#endif
