/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Memory: reclaim in the task that needs a page, and readahead. */
#ifndef SEEKMETER_EVENT_MEMORY_H
#define SEEKMETER_EVENT_MEMORY_H

#include "event_state.h"

static __always_inline int begin_reclaim(enum event_why why)
{
	struct open_event *open =
		begin_event(EVENT_KIND_DIRECT_RECLAIM, why, 0, bpf_ktime_get_ns());

	if (!open)
		return 0;
	open->message.record.asker_call = call_of(my_context());
	enter_event(open);
	return 0;
}

static __always_inline int end_reclaim(u64 pages)
{
	struct open_event *open = find_event(EVENT_KIND_DIRECT_RECLAIM);

	if (!open)
		return 0;
	open->message.record.pages = pages;
	open->message.record.bytes = pages << BYTES_A_PAGE_SHIFT;
	end_event(open, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(memory_reclaim_begin)
{
	return begin_reclaim(EVENT_WHY_MEMORY);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(memory_reclaim_end, unsigned long pages)
{
	return end_reclaim(pages);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(memory_group_begin)
{
	return begin_reclaim(EVENT_WHY_MEMCG);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(memory_group_end, unsigned long pages)
{
	return end_reclaim(pages);
}

#endif
