/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Memory: reclaim in the task that needs a page, and windows of readahead.
 *
 * A window is told twice where page_cache_ra_order() leaves it to page_cache_ra_unbounded(). It is told apart by the last
 * one of this CPU: nothing sleeps in between.
 */
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

/* The last window of a CPU, or the call that will open one. */
struct last_window {
	u64 index;
	u32 tid;
	enum event_why why;
	u8 is_told;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct last_window);
} last_windows SEC(".maps");

static __always_inline struct last_window *my_window(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&last_windows, &zero);
}

static __always_inline int note_cause(enum event_why why)
{
	struct last_window *last = my_window();

	if (!last)
		return 0;
	last->tid = this_tid();
	last->why = why;
	last->is_told = false;
	return 0;
}

static __always_inline void tell_window(struct inode *inode, u64 index, u64 pages,
					enum event_why why)
{
	struct event_message message;

	if (!make_point(&message, EVENT_KIND_READAHEAD, why, dev_of_sb(BPF_CORE_READ(inode, i_sb))))
		return;
	message.record.ino = BPF_CORE_READ(inode, i_ino);
	message.record.sequence = index;
	message.record.pages = pages;
	message.record.bytes = pages << BYTES_A_PAGE_SHIFT;
	send(&message);
}

SEC("tp_btf/page_cache_sync_ra")
int BPF_PROG(memory_ahead_miss)
{
	return note_cause(EVENT_WHY_MISS);
}

SEC("tp_btf/page_cache_async_ra")
int BPF_PROG(memory_ahead_mark)
{
	return note_cause(EVENT_WHY_AHEAD);
}

SEC("tp_btf/page_cache_ra_order")
int BPF_PROG(memory_ahead_window, struct inode *inode, unsigned long index,
	     struct file_ra_state *ahead)
{
	struct last_window *last = my_window();
	u32 tid = this_tid();
	bool is_caused;

	if (!last)
		return 0;
	is_caused = last->tid == tid && !last->is_told;
	tell_window(inode, index, BPF_CORE_READ(ahead, size),
		    is_caused ? last->why : EVENT_WHY_NONE);
	last->tid = tid;
	last->index = index;
	last->is_told = true;
	return 0;
}

SEC("tp_btf/page_cache_ra_unbounded")
int BPF_PROG(memory_ahead_pages, struct inode *inode, unsigned long index, unsigned long pages)
{
	struct last_window *last = my_window();
	bool is_mine = last && last->tid == this_tid(), is_caused = is_mine && !last->is_told;

	if (!last)
		return 0;
	if (!is_mine || is_caused || last->index != index)
		tell_window(inode, index, pages, is_caused ? last->why : EVENT_WHY_NONE);
	last->tid = 0;
	return 0;
}

#endif
