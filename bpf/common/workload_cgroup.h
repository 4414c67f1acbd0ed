/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The cgroup that the workload's tasks are in. */
#ifndef SEEKMETER_WORKLOAD_CGROUP_H
#define SEEKMETER_WORKLOAD_CGROUP_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

/* Set before loading. False: there is none, and each process but Seekmeter's counts as the workload's. */
const volatile bool have_cgroup;

/* Filled in by bpf_set_workload_cgroup() (collectors/recorder/bpf_attach.h). */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} workload_cgroup SEC(".maps");

/* The current task is in the cgroup. */
static __always_inline bool in_workload_cgroup(void)
{
	return have_cgroup && bpf_current_task_under_cgroup(&workload_cgroup, 0) == 1;
}

#endif
