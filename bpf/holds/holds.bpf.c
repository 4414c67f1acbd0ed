// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Lock acquisitions, contended or not, and hold times of mutexes, rw_semaphores and semaphores.
 *
 * fexit of the functions that take a mutex, rw_semaphore or semaphore, fentry of those that release it, summed in the
 * kernel by lock, mode and time bin: an acquisition in the bin in which it succeeded, a hold in the one in which it
 * ended. The recorder leaves out functions that this kernel lacks or does not allow to be traced.
 *
 * Hold time runs from the end of the program at the acquisition to the begin of the program at the release. The
 * tracing's own time is not in it, though the lock is held meanwhile.
 *
 * The task that takes a mutex or rwsem also releases it: each task has a small array of its open holds. Any task may
 * release a semaphore (XFS buffers are locked by one): its open hold is found by the lock. A semaphore held several
 * times at once counts as held from the last acquisition to the first release.
 *
 * Spinlocks and rwlocks are left out: most kernels inline their unlock, and BPF's own maps take them.
 * percpu_down_read() is inline too.
 *
 * These programs can be preempted, unlike those of tracepoints: shared counts are added to atomically, and the recorder
 * waits until bin_epoch.inside is 0.
 */
#include "common/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "common/records.h"

#include "locks/lock_object.h"

#include "hold_state.h"

#define OWNER_FLAGS 7ULL

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Keeps the record's layout in this object's BTF, where the recorder reads it. */
struct hold_record *hold_record_used;

/* The current task has taken the lock. again: the function may have called another one that is traced too. */
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
	/* Only readers hold a lock twice. */
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

/* owner: the lock's owner word, with flags in the low bits; 0: readers, who leave none. */
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
	struct open_hold *open, hold;

	if (!count)
		return;
	add(&count->released, 1);
	open = bpf_map_lookup_elem(&semaphore_holds, &lock);
	if (open) {
		hold = *open;
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

/* Ends a writer's hold and begins a reader's: counted as an acquisition for reading. */
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

/* Unlike mutex_trylock(), down_trylock() returns 0 for success. */
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
