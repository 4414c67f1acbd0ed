// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * The processes that a watch follows by number (PID=): the recorder puts the first ones in, their children come by fork.
 *
 * The recorder lends the map to every object: see workload_cgroup.h.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "followed_records.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, FOLLOWED_PROCESSES);
	__type(key, u32);
	__type(value, u8);
} followed_processes SEC(".maps");

u64 followed_lost; /* children that the map had no room for */

SEC("tp_btf/sched_process_fork")
int followed_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = BPF_CORE_READ(parent, tgid), to = BPF_CORE_READ(child, tgid);
	u8 is_one = 1;

	if (from == to || !bpf_map_lookup_elem(&followed_processes, &from))
		return 0;
	if (bpf_map_update_elem(&followed_processes, &to, &is_one, BPF_ANY))
		__sync_fetch_and_add(&followed_lost, 1);
	return 0;
}

/* Not sched_process_exit: a process that ends still closes its files, which may write. */
SEC("tp_btf/sched_process_free")
int followed_free(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = BPF_CORE_READ(task, tgid);

	if (tgid == (u32)BPF_CORE_READ(task, pid))
		bpf_map_delete_elem(&followed_processes, &tgid);
	return 0;
}
