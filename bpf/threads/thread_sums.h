/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sums of time, by key and bin. Part of threads.bpf.c.
 *
 * An interval within one bin is added to the bin's map. One that crosses a border goes to the recorder, which splits it:
 * each thread has one at most per border, and a long sleep is one however many it crosses. So does an interval that the
 * map has no room for, or whose bin comes too early: nothing is lost but what the ring has no room for.
 *
 * Sums are added to without atomic operations: all changes of a thread's time are made under the lock of the run queue
 * that the thread is on. Thread 0 stands for many; its key has the CPU in place of the work.
 */
#ifndef SEEKMETER_THREAD_SUMS_H
#define SEEKMETER_THREAD_SUMS_H

#include "thread_state.h"

/* Now, and the bin that it is in. */
struct moment {
	u64 ns;
	u64 bin;
};

static __always_inline struct moment moment_now(void)
{
	struct moment now = { .ns = bpf_ktime_get_ns() };

	now.bin = bin_of(&cuts, bin_ns, now.ns);
	return now;
}

/* A piece of a thread's time in one state. */
struct piece {
	u64 begin_ns, end_ns;
	u64 begin_bin, end_bin;
	u64 whole_ns; /* length of the interval that this piece ends, or is; 0: the interval goes on */
};

static __noinline int pass_on(const struct thread_time_key *key, const struct piece *piece,
			      struct thread_counts *count)
{
	struct thread_event *event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);

	if (!event) {
		count->ring_full += piece->whole_ns != 0;
		return 0;
	}
	event->begin_ns = piece->begin_ns;
	event->end_ns = piece->end_ns;
	event->whole_ns = piece->whole_ns;
	event->ended = 0;
	event->pad = 0;
	event->key = *key;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	count->passed += piece->whole_ns != 0;
	return 0;
}

/* The sum of a key in the bin; NULL: it has none there. */
static __always_inline struct thread_time_sum *sum_of(const struct thread_time_key *key, u64 bin,
						      struct thread_counts *count)
{
	const struct thread_time_sum none = {};
	u32 slot = bin % THREAD_BIN_SLOTS;
	struct thread_time_sum *sum;
	void *sums;
	int err; /* before 6.4 (d7ba4cc900bf) the upper half of what the helper returns is not set */

	if (bin - drained_to >= THREAD_BIN_SLOTS) {
		count->late++;
		return NULL;
	}
	sums = bpf_map_lookup_elem(&bins, &slot);
	if (!sums)
		return NULL;
	sum = bpf_map_lookup_elem(sums, key);
	if (sum)
		return sum;
	err = bpf_map_update_elem(sums, key, &none, BPF_NOEXIST);
	sum = bpf_map_lookup_elem(sums, key);
	if (!sum && err == -E2BIG)
		count->map_full++;
	else if (!sum)
		count->map_busy++;
	return sum;
}

static __noinline int add_time(const struct thread_time_key *key, const struct piece *piece,
			       struct thread_counts *count)
{
	struct thread_time_sum *sum = NULL;

	count->intervals += piece->whole_ns != 0;
	if (piece->begin_bin == piece->end_bin)
		sum = sum_of(key, piece->end_bin, count);
	if (!sum)
		return pass_on(key, piece, count);
	sum->ns += piece->end_ns - piece->begin_ns;
	if (!piece->whole_ns)
		return 0;
	sum->count++;
	if (piece->whole_ns > sum->max_ns)
		sum->max_ns = piece->whole_ns;
	count->summed++;
	return 0;
}

#endif
