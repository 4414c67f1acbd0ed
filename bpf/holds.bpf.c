// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * How often are locks taken, contended or not, and how long are they held?
 *
 * fexit of the functions that take a mutex, rw_semaphore or semaphore, fentry of those that release it, summed in the
 * kernel by lock, mode and time bin: an acquisition in the bin in which it succeeded, a hold in the one in which it
 * ended. The recorder leaves out the functions this kernel lacks or doesn't let us trace.
 *
 * A hold is from the end of our own work at the taking to the begin of it at the release: what it costs to trace it is
 * not in it, but the lock was held for that long all the same.
 *
 * Mutexes and rwsems are released by who took them: each task has a small array of its open holds. Semaphores (XFS
 * buffers are locked by one) are released by anybody: their open holds are found by the lock. One that several hold at
 * once is taken for held from the last taking to the first release.
 *
 * Spinlocks and rwlocks are not here: most kernels inline their unlock, and BPF's own maps take them. Taking a
 * percpu_rwsem for reading is inline too.
 *
 * These programs can be preempted, unlike those of tracepoints: all that is shared is added to atomically, and the
 * recorder sees by bin_turn.inside when nobody is at it.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "records.h"

#include "lock_objects.h"

#define DEPTH			   16 /* holds open at once; a power of two */
#define SEMAPHORES		   16384
#define EXPIRY_NS		   60000000000ULL
#define OWNER_FLAGS		   7ULL
#define MAX_TRIES		   8
#define BPF_MAP_TYPE_ARRAY_OF_MAPS 12
#define E2BIG			   7

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading. */
const volatile u64 bin_ns = 100000000;
const volatile bool have_cgroup;

/* Set by the recorder: when everything is attached, and as it empties bins. */
volatile bool recording;
volatile u64 drained_to;
struct bin_turn turns[BIN_CPUS];

/* Keeps the record's layout in this object's BTF, where the recorder reads it. */
struct hold_record *hold_record_used;

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

struct hold_sums {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384); /* resized */
	__type(key, struct hold_key);
	__type(value, struct hold_sum);
} sums0 SEC(".maps"), sums1 SEC(".maps"), sums2 SEC(".maps"), sums3 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, HOLD_BIN_SLOTS);
	__type(key, u32);
	__array(values, struct hold_sums);
} bins SEC(".maps") = { .values = { &sums0, &sums1, &sums2, &sums3 } };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct hold_counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} workload_cgroup SEC(".maps");

static __always_inline void add(u64 *to, u64 value)
{
	__sync_fetch_and_add(to, value);
}

/* The counts, and this CPU's turn taken; NULL: not recording. */
static __always_inline struct hold_counts *enter(void)
{
	struct hold_counts *count;
	u32 zero = 0;

	if (!recording)
		return NULL;
	count = bpf_map_lookup_elem(&counts, &zero);
	if (count)
		add(&turns[bpf_get_smp_processor_id() & (BIN_CPUS - 1)].inside, 1);
	return count;
}

static __always_inline void leave(void)
{
	add(&turns[bpf_get_smp_processor_id() & (BIN_CPUS - 1)].inside, -1);
}

/* The sum of this lock in the bin of this moment; NULL: counted as lost. */
static __always_inline struct hold_sum *sum_of(const struct hold_key *key,
					       struct hold_counts *count, u64 now)
{
	u64 bin = now / bin_ns;
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
	key->in_workload = !have_cgroup || bpf_current_task_under_cgroup(&workload_cgroup, 0) == 1;
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
	u64 ns = now - hold->begin_ns, longest, found;

	if (!sum)
		return;
	add(&sum->holds, 1);
	add(&sum->hold_ns, ns);
	longest = *(volatile u64 *)&sum->max_hold_ns;
	/* Only readers meet here: others still hold the lock. */
	for (int i = 0; i < MAX_TRIES && ns > longest; i++) {
		found = __sync_val_compare_and_swap(&sum->max_hold_ns, longest, ns);
		if (found == longest)
			break;
		longest = found;
	}
}

/* Where this task's hold is, the latest first; DEPTH: nowhere. */
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

/* The last one takes its place. */
static __always_inline void remove_hold(struct open_holds *open, u32 at)
{
	u32 last = (open->depth - 1) & (DEPTH - 1);

	if (at != last)
		open->hold[at & (DEPTH - 1)] = open->hold[last];
	open->depth = last;
}

/* Holds whose end was never seen must not fill the array for good. */
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

/* This task has taken it. again: a function that may call another one that told us already. */
static __always_inline void taken(void *pointer, enum lock_kind kind, enum lock_mode mode,
				  bool again)
{
	struct hold_counts *count = enter();
	struct open_holds *open;
	struct open_hold *hold;
	u64 lock = (u64)pointer;
	u32 at;

	if (!count)
		return;
	open = holds_of_task(BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!open) {
		struct hold_key key;

		set_key(&key, lock, kind, mode);
		add_taken(&key, count);
		add(&count->no_storage, 1);
		goto out;
	}
	/* Nobody has it twice, but readers. */
	at = mode == LOCK_MODE_READ ? DEPTH : find_hold(open, lock, mode);
	if (at < DEPTH) {
		if (again)
			goto out;
		remove_hold(open, at);
		add(&count->end_missed, 1);
	}
	if (open->depth >= DEPTH)
		forget_old(open, count, bpf_ktime_get_ns());
	if (open->depth >= DEPTH) {
		struct hold_key key;

		set_key(&key, lock, kind, mode);
		add_taken(&key, count);
		add(&count->too_deep, 1);
		goto out;
	}
	hold = &open->hold[open->depth & (DEPTH - 1)];
	set_key(&hold->key, lock, kind, mode);
	add_taken(&hold->key, count);
	open->depth++;
	hold->begin_ns = bpf_ktime_get_ns();
out:
	leave();
}

static __always_inline void not_taken(void *pointer, enum lock_kind kind, enum lock_mode mode)
{
	struct hold_counts *count = enter();
	struct hold_sum *sum;
	struct hold_key key;

	if (!count)
		return;
	add(&count->try_failed, 1);
	set_key(&key, (u64)pointer, kind, mode);
	sum = sum_of(&key, count, bpf_ktime_get_ns());
	if (sum)
		add(&sum->try_failed, 1);
	leave();
}

/* owner: the lock's word for who has it, flags in the low bits; readers keep none (0). */
static __always_inline void released(void *pointer, enum lock_mode mode, u64 owner)
{
	u64 now = bpf_ktime_get_ns(), lock = (u64)pointer;
	struct hold_counts *count = enter();
	struct open_holds *open;
	struct open_hold hold;
	u32 at = DEPTH;

	if (!count)
		return;
	add(&count->released, 1);
	open = holds_of_task(0);
	if (open)
		at = find_hold(open, lock, mode);
	if (open && at < DEPTH) {
		hold = open->hold[at & (DEPTH - 1)];
		remove_hold(open, at);
		add_hold(&hold, count, now);
	} else {
		owner &= ~OWNER_FLAGS;
		if (owner && owner != (u64)bpf_get_current_task())
			add(&count->other_task, 1);
		else
			add(&count->not_taken, 1);
	}
	leave();
}

static __always_inline void semaphore_taken(void *pointer)
{
	struct hold_counts *count = enter();
	struct open_hold hold = {};
	u64 lock = (u64)pointer;

	if (!count)
		return;
	set_key(&hold.key, lock, LOCK_KIND_SEMAPHORE, LOCK_MODE_EXCL);
	add_taken(&hold.key, count);
	if (bpf_map_lookup_elem(&semaphore_holds, &lock))
		add(&count->end_missed, 1);
	hold.begin_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&semaphore_holds, &lock, &hold, BPF_ANY))
		add(&count->too_deep, 1);
	leave();
}

static __always_inline void semaphore_released(void *pointer)
{
	u64 now = bpf_ktime_get_ns(), lock = (u64)pointer;
	struct hold_counts *count = enter();
	struct open_hold *found, hold;

	if (!count)
		return;
	add(&count->released, 1);
	found = bpf_map_lookup_elem(&semaphore_holds, &lock);
	if (found) {
		hold = *found;
		bpf_map_delete_elem(&semaphore_holds, &lock);
		add_hold(&hold, count, now);
	} else {
		add(&count->not_taken, 1);
	}
	leave();
}

/* kernel/locking/mutex.c */
SEC("fexit/mutex_lock")
int BPF_PROG(mutex_lock, void *lock)
{
	taken(lock, LOCK_KIND_MUTEX, LOCK_MODE_EXCL, false);
	return 0;
}

SEC("fexit/mutex_lock_io")
int BPF_PROG(mutex_lock_io, void *lock)
{
	taken(lock, LOCK_KIND_MUTEX, LOCK_MODE_EXCL, true);
	return 0;
}

SEC("fexit/mutex_lock_killable")
int BPF_PROG(mutex_lock_killable, void *lock, int ret)
{
	if (!ret)
		taken(lock, LOCK_KIND_MUTEX, LOCK_MODE_EXCL, false);
	return 0;
}

SEC("fexit/mutex_lock_interruptible")
int BPF_PROG(mutex_lock_interruptible, void *lock, int ret)
{
	if (!ret)
		taken(lock, LOCK_KIND_MUTEX, LOCK_MODE_EXCL, false);
	return 0;
}

SEC("fexit/mutex_trylock")
int BPF_PROG(mutex_trylock, void *lock, int ret)
{
	if (ret)
		taken(lock, LOCK_KIND_MUTEX, LOCK_MODE_EXCL, false);
	else
		not_taken(lock, LOCK_KIND_MUTEX, LOCK_MODE_EXCL);
	return 0;
}

SEC("fentry/mutex_unlock")
int BPF_PROG(mutex_unlock, struct mutex *lock)
{
	released(lock, LOCK_MODE_EXCL, lock->owner.counter);
	return 0;
}

/* kernel/locking/rwsem.c */
SEC("fexit/down_read")
int BPF_PROG(down_read, void *lock)
{
	taken(lock, LOCK_KIND_RWSEM, LOCK_MODE_READ, false);
	return 0;
}

SEC("fexit/down_read_killable")
int BPF_PROG(down_read_killable, void *lock, int ret)
{
	if (!ret)
		taken(lock, LOCK_KIND_RWSEM, LOCK_MODE_READ, false);
	return 0;
}

SEC("fexit/down_read_interruptible")
int BPF_PROG(down_read_interruptible, void *lock, int ret)
{
	if (!ret)
		taken(lock, LOCK_KIND_RWSEM, LOCK_MODE_READ, false);
	return 0;
}

SEC("fexit/down_read_trylock")
int BPF_PROG(down_read_trylock, void *lock, int ret)
{
	if (ret)
		taken(lock, LOCK_KIND_RWSEM, LOCK_MODE_READ, false);
	else
		not_taken(lock, LOCK_KIND_RWSEM, LOCK_MODE_READ);
	return 0;
}

SEC("fexit/down_write")
int BPF_PROG(down_write, void *lock)
{
	taken(lock, LOCK_KIND_RWSEM, LOCK_MODE_WRITE, false);
	return 0;
}

SEC("fexit/down_write_killable")
int BPF_PROG(down_write_killable, void *lock, int ret)
{
	if (!ret)
		taken(lock, LOCK_KIND_RWSEM, LOCK_MODE_WRITE, false);
	return 0;
}

SEC("fexit/down_write_trylock")
int BPF_PROG(down_write_trylock, void *lock, int ret)
{
	if (ret)
		taken(lock, LOCK_KIND_RWSEM, LOCK_MODE_WRITE, false);
	else
		not_taken(lock, LOCK_KIND_RWSEM, LOCK_MODE_WRITE);
	return 0;
}

/* The end of a writer's hold, and the begin of a reader's: counted as taken for reading. */
SEC("fentry/downgrade_write")
int BPF_PROG(downgrade_write, struct rw_semaphore *lock)
{
	released(lock, LOCK_MODE_WRITE, lock->owner.counter);
	taken(lock, LOCK_KIND_RWSEM, LOCK_MODE_READ, false);
	return 0;
}

SEC("fentry/up_read")
int BPF_PROG(up_read, void *lock)
{
	released(lock, LOCK_MODE_READ, 0);
	return 0;
}

SEC("fentry/up_write")
int BPF_PROG(up_write, struct rw_semaphore *lock)
{
	released(lock, LOCK_MODE_WRITE, lock->owner.counter);
	return 0;
}

/* kernel/locking/semaphore.c */
SEC("fexit/down")
int BPF_PROG(down, void *lock)
{
	semaphore_taken(lock);
	return 0;
}

SEC("fexit/down_interruptible")
int BPF_PROG(down_interruptible, void *lock, int ret)
{
	if (!ret)
		semaphore_taken(lock);
	return 0;
}

SEC("fexit/down_killable")
int BPF_PROG(down_killable, void *lock, int ret)
{
	if (!ret)
		semaphore_taken(lock);
	return 0;
}

SEC("fexit/down_timeout")
int BPF_PROG(down_timeout, void *lock, long timeout, int ret)
{
	if (!ret)
		semaphore_taken(lock);
	return 0;
}

/* The other way round than mutex_trylock(): 0 is success. */
SEC("fexit/down_trylock")
int BPF_PROG(down_trylock, void *lock, int ret)
{
	if (!ret)
		semaphore_taken(lock);
	else
		not_taken(lock, LOCK_KIND_SEMAPHORE, LOCK_MODE_EXCL);
	return 0;
}

SEC("fentry/up")
int BPF_PROG(up, void *lock)
{
	semaphore_released(lock);
	return 0;
}
