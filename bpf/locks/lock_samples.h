/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * CPU samples: spinning that the tracepoints do not show, and holders at work. Part of locks.bpf.c.
 *
 * Each CPU is interrupted SAMPLE_HZ times a second. A sample in one of the kernel's spinning functions counts as
 * SPIN_SEEN where the tracepoints have a spinning wait open there, else as SPIN_UNSEEN: an rwsem writer that wins
 * by optimistic spinning (or, first in the queue, spins on the owner: its wait is open, as a sleep), a spinlock's pending
 * bit, a guest's virt_spin_lock(). Errors:
 * - the few nanoseconds between a function's first instruction and contention_begin, and between contention_end
 *   and its last, are UNSEEN although their wait is (or was) seen;
 * - an interrupt that spins unseen inside a wait that is seen is SEEN;
 * - the timer is no NMI: with interrupts off it fires late, so a task that spins with interrupts off is sampled after
 *   the wait, or not at all (the recorder counts the periods left out);
 * - a virtual CPU that halts until it gets its spinlock is SEEN, though its host may run another one meanwhile.
 * SEEN samples add up to less than the tracepoints' spin_ns where a spinning task is preempted: its wait goes on, the
 * CPU does something else.
 *
 * HOLDING: the current task holds a mutex or rwsem, and others wait for it. Known holders are those that ran when a
 * wait began (held_waited); of several locks that a task holds, only the last one waited for is known. So holding
 * is a lower bound. A task that holds one lock and spins for another counts as both.
 */
#ifndef SEEKMETER_LOCK_SAMPLES_H
#define SEEKMETER_LOCK_SAMPLES_H

#include "common/cpu_samples.h"
#include "lock_state.h"
#include "lock_waiter.h"

#define HELD_LOCKS	   4096
#define OWNER_FLAGS	   7ULL
#define MUTEX_FLAG_WAITERS 1ULL /* kernel/locking/mutex.h, in the owner word */
#define RWSEM_READER_OWNED 1ULL /* kernel/locking/rwsem.c, in the owner word */
#define RWSEM_FLAG_WAITERS 2ULL /* in the count */

/* Epochs of their own: a sample can interrupt contention_end(). */
struct bin_epoch sample_epochs[BIN_CPUS];
struct bin_cuts sample_cuts;
volatile u64 samples_drained_to;

struct held_lock {
	u64 lock;
	u64 kind; /* LOCK_KIND_MUTEX or LOCK_KIND_RWSEM */
};

/* By task_struct: a lock that the running task held when a wait for it began (filled by lock_holders.h). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, HELD_LOCKS);
	__type(key, u64);
	__type(value, struct held_lock);
} held_waited SEC(".maps");

BIN_MAPS(sample_bins, BPF_MAP_TYPE_PERCPU_HASH, LOCK_BIN_SLOTS, struct lock_sample_key, u64);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lock_sample_counts);
} sample_counts SEC(".maps");

/* Keeps the record's layout in this object's BTF, where the recorder reads it. */
struct lock_sample_record *lock_sample_record_used;

/* Is this task, or an interrupt in it, in a wait for a spinlock or rwlock on this CPU? */
static __always_inline bool cpu_wait_open(void)
{
	u32 zero = 0, pid = (u32)bpf_get_current_pid_tgid();
	struct open_waits *open = bpf_map_lookup_elem(&cpu_waits, &zero);

	return open && open->depth && open->wait[(open->depth - 1) & (DEPTH - 1)].pid == pid;
}

/* The innermost wait of this task for a mutex or sleeping lock; NULL: none. */
static __always_inline struct open_wait *task_wait(void)
{
	struct open_waits *open =
		bpf_task_storage_get(&task_waits, bpf_get_current_task_btf(), NULL, 0);

	return open && open->depth ? &open->wait[(open->depth - 1) & (DEPTH - 1)] : NULL;
}

/* LOCK_DOING_SPIN_SEEN or LOCK_DOING_SPIN_UNSEEN; -1: the CPU does not spin. */
static __always_inline int spinning(struct sampled *ctx)
{
	u64 kind = range_kind(ctx->registers[REGISTER_IP]);
	struct open_wait *wait;

	if (kind == SPIN_HELPER)
		kind = caller_kind(ctx);
	if (kind == SPIN_NOT)
		return -1;
	if (kind == SPIN_CPU)
		return cpu_wait_open() ? LOCK_DOING_SPIN_SEEN : LOCK_DOING_SPIN_UNSEEN;
	if (kind == SPIN_CPU_HALTED)
		return cpu_wait_open() ? LOCK_DOING_SPIN_SEEN : -1;
	wait = task_wait();
	if (wait && wait->spinning)
		return LOCK_DOING_SPIN_SEEN;
	if (kind == SPIN_TASK ||
	    (kind == SPIN_RWSEM && !(wait && wait->key.kind == LOCK_KIND_RWSEM)))
		return LOCK_DOING_SPIN_UNSEEN;
	return -1;
}

/* A lock that this task holds and others wait for; 0: none is known. */
static __always_inline u64 holding(u64 task)
{
	struct held_lock *held = bpf_map_lookup_elem(&held_waited, &task);
	u64 owner, waiters = 0;

	if (!held)
		return 0;
	if (held->kind == LOCK_KIND_MUTEX) {
		struct mutex *lock = (void *)held->lock;

		owner = BPF_CORE_READ(lock, owner.counter);
		waiters = owner & MUTEX_FLAG_WAITERS;
		if (bpf_core_field_exists(lock->osq))
			waiters |= BPF_CORE_READ(lock, osq.tail.counter);
	} else {
		struct rw_semaphore *lock = (void *)held->lock;

		owner = BPF_CORE_READ(lock, owner.counter);
		if (owner & RWSEM_READER_OWNED)
			return 0;
		waiters = BPF_CORE_READ(lock, count.counter) & RWSEM_FLAG_WAITERS;
		if (bpf_core_field_exists(lock->osq))
			waiters |= BPF_CORE_READ(lock, osq.tail.counter);
	}
	return waiters && (owner & ~OWNER_FLAGS) == task ? held->lock : 0;
}

static __always_inline void add_sample(struct lock_sample_key *key,
				       struct lock_sample_counts *count)
{
	u64 bin = bin_of(&sample_cuts, bin_ns, bpf_ktime_get_ns()), one = 1, *sum;
	u32 slot = bin % LOCK_BIN_SLOTS;
	void *sums;
	int err; /* see add() in locks.bpf.c */

	if (bin - samples_drained_to >= LOCK_BIN_SLOTS) {
		count->late++;
		return;
	}
	sums = bpf_map_lookup_elem(&sample_bins, &slot);
	if (!sums)
		return;
	sum = bpf_map_lookup_elem(sums, key);
	if (sum) {
		*sum += 1;
		count->counted++;
		return;
	}
	/* No other program adds on this CPU, but another CPU may have created the entry meanwhile. */
	err = bpf_map_update_elem(sums, key, &one, BPF_ANY);
	if (!err)
		count->counted++;
	else if (err == -E2BIG)
		count->map_full++;
	else
		count->map_busy++;
}

static __always_inline void sample(struct sampled *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct lock_sample_counts *count;
	struct lock_sample_key key = {};
	u32 zero = 0;
	bool interrupt;
	u64 held;
	int spin;

	count = bpf_map_lookup_elem(&sample_counts, &zero);
	if (!count)
		return;
	count->samples++;
	if (!(ctx->registers[REGISTER_IP] >>
	      63)) /* in user mode: no kernel lock is held or spun for */
		return;
	spin = spinning(ctx);
	held = holding(bpf_get_current_task());
	if (spin < 0 && !held)
		return;

	key.stack_id = bpf_get_stackid(ctx, &stacks, 0);
	if (key.stack_id < 0) {
		key.stack_id = LOCK_STACK_NONE;
		count->no_stack++;
	}
	/* An interrupt's spinning is not the task's, but the task holds its locks meanwhile. */
	interrupt = ctx->registers[REGISTER_SP] - (u64)task->stack >= KERNEL_STACK_BYTES;
	if (spin >= 0) {
		count->spinning++;
		key.doing = spin;
		note_waiter(&key.task, interrupt);
		add_sample(&key, count);
	}
	if (held) {
		count->holding++;
		key.doing = LOCK_DOING_HOLDING;
		key.lock = held;
		if (interrupt || spin < 0)
			note_waiter(&key.task, false);
		add_sample(&key, count);
	}
}

SEC("perf_event")
int lock_sample(struct sampled *ctx)
{
	struct bin_epoch *epoch = &sample_epochs[bpf_get_smp_processor_id() & (BIN_CPUS - 1)];

	if (is_over)
		return 0;
	*(volatile u64 *)&epoch->count += 1;
	sample(ctx);
	*(volatile u64 *)&epoch->count += 1;
	return 0;
}

#endif
