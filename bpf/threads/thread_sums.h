/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Sums of time, by key and bin. Part of threads.bpf.c.
 *
 * A thread does the same few things in a bin, so its slot has cells: the sums of the last keys. They leave the cells for
 * the ring when the thread's first interval in a later bin ends, or when the thread ends. A key that needs another one's
 * cell sends that sum to the bin's map.
 *
 * An interval that crosses the border of bins goes through the ring to the recorder, which splits it: each thread has one at
 * most per border, and a long sleep is one however many it crosses. So does an interval that the map has no room for:
 * nothing is lost but what the ring has no room for.
 *
 * Sums are added to without atomic operations: all changes of a thread's time are made under the lock of the run queue
 * that the thread is on, or, by samples, on the CPU that it runs on. Thread 0 stands for many; its key has the CPU in place
 * of the work.
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

/* Not on the stack, of which all functions of a program together have 512 bytes. */
const volatile struct thread_time_sum zero_sum;
#define no_sum (*(const struct thread_time_sum *)&zero_sum)

static __separate int pass_on(const struct thread_time_key *key, const struct piece *piece,
			      struct thread_counts *count)
{
	struct thread_event *event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);

	if (!event) {
		count->ring_full += piece->whole_ns != 0;
		return 0;
	}
	event->kind = THREAD_EVENT_INTERVAL;
	event->begin_ns = piece->begin_ns;
	event->end_ns = piece->end_ns;
	event->whole_ns = piece->whole_ns;
	event->key = *key;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	count->passed += piece->whole_ns != 0;
	return 0;
}

static __always_inline void add_sum(struct thread_time_sum *to, const struct thread_time_sum *sum)
{
	to->ns += sum->ns;
	to->count += sum->count;
	if (sum->max_ns > to->max_ns)
		to->max_ns = sum->max_ns;
	to->samples += sum->samples;
	to->samples_user += sum->samples_user;
	to->samples_softirq += sum->samples_softirq;
	to->samples_spin += sum->samples_spin;
}

/* Sends a cell's sum to the recorder, and empties the cell. */
static __separate int send_cell(struct thread_cell *cell, u64 bin, struct thread_counts *count)
{
	struct thread_event *event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);

	if (event) {
		event->kind = THREAD_EVENT_SUM;
		event->bin = bin;
		event->key = cell->key;
		event->sum = cell->sum;
		bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	} else {
		count->ring_full += cell->sum.count;
	}
	cell->sum = no_sum;
	return 0;
}

static __always_inline bool is_used(const struct thread_cell *cell)
{
	return cell->sum.ns || cell->sum.count || cell->sum.samples;
}

/* Sends all cells' sums. */
__noinline int send_cells(struct thread_slot *slot, struct thread_counts *count)
{
	if (!slot || !count)
		return 0;
	for (u32 i = 0; i < THREAD_CELLS; i++)
		if (is_used(&slot->cells[i]))
			send_cell(&slot->cells[i], slot->cells_bin, count);
	return 0;
}

/* The sum of a key in the bin; NULL: it has none there. */
static __always_inline struct thread_time_sum *sum_of(const struct thread_time_key *key, u64 bin,
						      struct thread_counts *count)
{
	/* On the stack: before 6.2 a map's key can't be memory that a function was given. */
	const struct thread_time_key own = *key;
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
	sum = bpf_map_lookup_elem(sums, &own);
	if (sum)
		return sum;
	err = bpf_map_update_elem(sums, &own, (void *)&no_sum, BPF_NOEXIST);
	sum = bpf_map_lookup_elem(sums, &own);
	if (!sum && err == -E2BIG)
		count->map_full++;
	else if (!sum)
		count->map_busy++;
	return sum;
}

static __always_inline bool is_key(const struct thread_time_key *one,
				   const struct thread_time_key *other)
{
	const u64 *a = (const u64 *)one, *b = (const u64 *)other;

	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

/* Moves a cell's sum to the map of its bin, which is the present one. */
static __separate int make_room(struct thread_cell *cell, u64 bin, struct thread_counts *count)
{
	struct thread_time_sum *sum = sum_of(&cell->key, bin, count);

	if (!sum)
		return send_cell(cell, bin, count);
	add_sum(sum, &cell->sum);
	cell->sum = no_sum;
	return 0;
}

/*
 * Running has a cell of its own. Waits for a CPU and sleeps have theirs apart: a wait that took the cell of the sleep
 * before it would leave run_as_scheduler() nothing to move the border between them with.
 */
static __always_inline u32 wait_cell_index(u32 by)
{
	return 1 + by % THREAD_WAIT_CELLS;
}

static __always_inline u32 sleep_cell_index(s32 stack_id)
{
	return 1 + THREAD_WAIT_CELLS + (u32)stack_id % THREAD_SLEEP_CELLS;
}

static __always_inline u32 cell_index(const struct thread_time_key *key)
{
	if (key->state == THREAD_STATE_RUNNING)
		return 0;
	return key->state == THREAD_STATE_RUNNABLE ? wait_cell_index(key->by)
						   : sleep_cell_index(key->stack_id);
}

/* The cell of a key in the present bin. */
static __always_inline struct thread_time_sum *cell_of(struct thread_slot *slot,
						       const struct thread_time_key *key, u64 bin,
						       struct thread_counts *count)
{
	u32 index = cell_index(key);
	struct thread_cell *cell;

	/* clang 19 takes the state itself as the index where it is 0, which the verifier does not know any more. */
	barrier_var(index);
	if (index >= THREAD_CELLS)
		index = 0;
	cell = &slot->cells[index];
	if (slot->cells_bin != bin) {
		send_cells(slot, count);
		slot->cells_bin = bin;
	}
	if (!is_key(&cell->key, key)) {
		if (is_used(cell))
			make_room(cell, bin, count);
		cell->key = *key;
	}
	return &cell->sum;
}

static __always_inline void add_piece(struct thread_time_sum *sum, const struct piece *piece)
{
	sum->ns += piece->end_ns - piece->begin_ns;
	if (!piece->whole_ns)
		return;
	sum->count++;
	if (piece->whole_ns > sum->max_ns)
		sum->max_ns = piece->whole_ns;
}

/*
 * Adds a piece of the thread's time under the key of its open interval. Not static: the verifier checks such a function
 * once, not for each way that leads to it.
 */
__noinline int add_time(struct thread_slot *slot, const struct piece *piece,
			struct thread_counts *count)
{
	if (!slot || !piece || !count)
		return 0;
	count->intervals += piece->whole_ns != 0;
	if (piece->begin_bin != piece->end_bin)
		return pass_on(&slot->key, piece, count);
	add_piece(cell_of(slot, &slot->key, piece->end_bin, count), piece);
	return 0;
}

#endif
