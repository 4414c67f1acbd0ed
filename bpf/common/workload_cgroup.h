/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Which tasks are the workload's: those of a cgroup, or of processes that a watch follows (PID=). */
#ifndef SEEKMETER_WORKLOAD_CGROUP_H
#define SEEKMETER_WORKLOAD_CGROUP_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

/* Set before loading. False: there is none, and each process but Seekmeter's counts as the workload's. */
const volatile bool have_cgroup;
/* With have_cgroup: the workload is the processes in followed_processes. */
const volatile bool by_process;

/* Filled in by bpf_set_workload() (collectors/recorder/bpf_attach.h). */
struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} workload_cgroup SEC(".maps");

/* The map of followed.bpf.c, if by_process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u8);
} followed_processes SEC(".maps");

/* The current task is in the cgroup, or of a followed process. */
static __always_inline bool in_workload_cgroup(void)
{
	u32 tgid;

	if (!have_cgroup)
		return false;
	if (!by_process)
		return bpf_current_task_under_cgroup(&workload_cgroup, 0) == 1;
	tgid = bpf_get_current_pid_tgid() >> 32;
	return bpf_map_lookup_elem(&followed_processes, &tgid) != NULL;
}

#endif
