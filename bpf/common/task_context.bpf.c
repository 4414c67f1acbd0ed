// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The maps of task contexts and of the newest thread's number, which the recorder creates once and lends to every object:
 * see task_context.h and thread_number.h.
 */
#include "common/task_context.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_context);
} task_contexts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE); /* the recorder gives numbers too */
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} thread_numbers SEC(".maps");
