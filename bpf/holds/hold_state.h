/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Open holds, the sums of ended ones, and the maps of holds.bpf.c.
 *
 * Programs can preempt each other: shared counts are added to atomically. A task's open holds are touched only by programs
 * that run in this task.
 */
#ifndef SEEKMETER_HOLD_STATE_H
#define SEEKMETER_HOLD_STATE_H

#include "common/bin_maps.h"
#include "common/workload_cgroup.h"

#define DEPTH	   16 /* holds open at once; a power of two */
#define SEMAPHORES 16384
#define EXPIRY_NS  60000000000ULL
#define MAX_TRIES  8

/* Set before loading. */
const volatile u64 bin_ns = 100000000;

/* Set by the recorder: when all programs are attached, and as it empties bins. */
volatile bool recording;
volatile u64 drained_to;
struct bin_epoch epochs[BIN_CPUS];
struct bin_cuts cuts;

struct open_hold {
	struct hold_key key;
	u64 begin_ns;
};

struct open_holds {
	u32 depth;
	struct open_hold hold[DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct open_holds);
} task_holds SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SEMAPHORES);
	__type(key, u64);
	__type(value, struct open_hold);
} semaphore_holds SEC(".maps");

BIN_MAPS(bins, BPF_MAP_TYPE_HASH, HOLD_BIN_SLOTS, struct hold_key, struct hold_sum);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hold_counts);
} counts SEC(".maps");

static __always_inline void add(u64 *to, u64 value)
{
	__sync_fetch_and_add(to, value);
}

/* Returns the counts, with this CPU counted in (bin_epoch.h); NULL: not recording. */
static __always_inline struct hold_counts *enter(void)
{
	struct hold_counts *count;
	u32 zero = 0;

	if (!recording)
		return NULL;
	count = bpf_map_lookup_elem(&counts, &zero);
	if (count)
		add(&epochs[bpf_get_smp_processor_id() & (BIN_CPUS - 1)].inside, 1);
	return count;
}

static __always_inline void leave(void)
{
	add(&epochs[bpf_get_smp_processor_id() & (BIN_CPUS - 1)].inside, -1);
}

/* The sum of this lock in the present bin; NULL: counted as lost. */
static __always_inline struct hold_sum *sum_of(const struct hold_key *key,
					       struct hold_counts *count, u64 now)
{
	u64 bin = bin_of(&cuts, bin_ns, now);
	u32 slot = bin % HOLD_BIN_SLOTS;
	struct hold_sum none = {}, *sum;
	void *sums;
	int err; /* before 6.4 (d7ba4cc900bf) the upper half of what the helper returns is not set */

	if (bin - drained_to >= HOLD_BIN_SLOTS) {
		add(&count->late, 1);
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
	if (sum)
		note_object(key->lock);
	else if (err == -E2BIG)
		add(&count->map_full, 1);
	else
		add(&count->map_busy, 1);
	return sum;
}

static __always_inline void set_key(struct hold_key *key, u64 lock, enum lock_kind kind,
				    enum lock_mode mode)
{
	__builtin_memset(key, 0, sizeof(*key));
	key->lock = lock;
	key->kind = kind;
	key->mode = mode;
	key->in_workload = !have_cgroup || in_workload_cgroup();
}

static __always_inline void add_taken(const struct hold_key *key, struct hold_counts *count)
{
	struct hold_sum *sum = sum_of(key, count, bpf_ktime_get_ns());

	add(&count->taken, 1);
	if (sum)
		add(&sum->acquired, 1);
}

static __always_inline void add_hold(const struct open_hold *hold, struct hold_counts *count,
				     u64 now)
{
	struct hold_sum *sum = sum_of(&hold->key, count, now);
	u64 ns = now - hold->begin_ns, longest, before;

	if (!sum)
		return;
	add(&sum->holds, 1);
	add(&sum->hold_ns, ns);
	longest = *(volatile u64 *)&sum->max_hold_ns;
	/* Only readers race here: an exclusive holder still has the lock. */
	for (int i = 0; i < MAX_TRIES && ns > longest; i++) {
		before = __sync_val_compare_and_swap(&sum->max_hold_ns, longest, ns);
		if (before == longest)
			break;
		longest = before;
	}
}

/* Index of this task's hold, the latest first; DEPTH: there is none. */
static __always_inline u32 find_hold(struct open_holds *open, u64 lock, enum lock_mode mode)
{
	u32 depth = open->depth;

	for (u32 i = 1; i <= DEPTH; i++) {
		struct open_hold *hold = &open->hold[(depth - i) & (DEPTH - 1)];

		if (i > depth)
			break;
		if (hold->key.lock == lock && hold->key.mode == mode)
			return (depth - i) & (DEPTH - 1);
	}
	return DEPTH;
}

/* Moves the last hold to this index. */
static __always_inline void remove_hold(struct open_holds *open, u32 at)
{
	u32 last = (open->depth - 1) & (DEPTH - 1);

	if (at != last)
		open->hold[at & (DEPTH - 1)] = open->hold[last];
	open->depth = last;
}

/* Drops holds whose end was missed: they must not fill the array for good. */
static __always_inline void forget_old(struct open_holds *open, struct hold_counts *count, u64 now)
{
	for (int i = DEPTH - 1; i >= 0; i--) {
		if (i < open->depth && now - open->hold[i].begin_ns > EXPIRY_NS) {
			remove_hold(open, i);
			add(&count->end_missed, 1);
		}
	}
}

static __always_inline struct open_holds *holds_of_task(u64 flags)
{
	return bpf_task_storage_get(&task_holds, bpf_get_current_task_btf(), NULL, flags);
}

#endif
