/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The holder of a lock that is waited for: its state, its stack, and the chain of locks behind it.
 *
 * Mutexes and rwsems hold their owner's task_struct, with flags in the low three bits (kernel/locking/mutex.c,
 * rwsem.c). The owner is read when a waiter goes to sleep or, if it never does, when it begins to spin. The owner may
 * release the lock at the same moment, so the holder is a sample. Reading a task that has just gone gives wrong values,
 * never a fault. A holder that sleeps for another mutex or rwsem is followed to the end of the chain.
 *
 * The stack of a task off its CPU can be read. With bpf_task_from_pid() (Linux kernel commit 3f0e6f2b41d3 ("bpf: Add
 * bpf_task_from_pid() kfunc") (in v6.2)) the holder's stack is read at once. Without it, each task's stack is kept when
 * the task is switched out. The stack of a running task comes from CPU samples only (lock_samples.h).
 */
#ifndef SEEKMETER_LOCK_HOLDERS_H
#define SEEKMETER_LOCK_HOLDERS_H

#include "lock_samples.h"
#include "lock_state.h"

#define CHAIN_LOCKS   8
#define SLEEPERS      16384
#define HOLDER_STACKS 16384

/* Set before loading. */
const volatile bool have_task_from_pid;

/* Tasks asleep for a mutex or rwsem, by address. */
struct sleeper {
	u64 lock;
	u64 kind; /* enum lock_kind */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SLEEPERS);
	__type(key, u64);
	__type(value, struct sleeper);
} sleepers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, HOLDER_STACKS);
	__type(key, s32);
	__type(value, struct lock_holder_stack);
} holder_stacks SEC(".maps");

struct holder_scratch {
	struct lock_holder_stack stack;
	u64 address;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct holder_scratch);
} holder_scratch SEC(".maps");

/* By task_struct: the stack with which the task was switched out; only without bpf_task_from_pid(). */
struct switched_out {
	s32 pid;
	s32 stack_id;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SLEEPERS);
	__type(key, u64);
	__type(value, struct switched_out);
} switched_out SEC(".maps");

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;

static __always_inline u64 read_u64(u64 address)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

/* The holder's task_struct; 0: there is none, and *state has the reason. */
static __always_inline u64 owner_of(u64 lock, enum lock_kind kind, enum lock_holder_state *state)
{
	u64 owner;

	*state = LOCK_HOLDER_UNKNOWN;
	if (kind == LOCK_KIND_MUTEX && bpf_core_field_exists(struct mutex, owner)) {
		owner = read_u64(lock + bpf_core_field_offset(struct mutex, owner));
	} else if (kind == LOCK_KIND_RWSEM && bpf_core_field_exists(struct rw_semaphore, owner)) {
		owner = read_u64(lock + bpf_core_field_offset(struct rw_semaphore, owner));
		if (owner & RWSEM_READER_OWNED) {
			*state = LOCK_HOLDER_READERS;
			return 0;
		}
	} else {
		return 0;
	}
	owner &= ~OWNER_FLAGS;
	*state = owner ? LOCK_HOLDER_RUNNING : LOCK_HOLDER_NOBODY;
	return owner;
}

/*
 * State of the lock's owner; *next: the lock it sleeps for. If that is the same lock, the owner has released it and
 * waits again, or was handed the lock (__mutex_handoff() in kernel/locking/mutex.c) and still sleeps.
 */
static __always_inline enum lock_holder_state state_of(u64 address, u64 lock, struct sleeper *next)
{
	struct task_struct *task = (void *)address;
	struct sleeper *sleeper;

	next->lock = 0;
	/* By CO-RE size: an int, but a u8 in 7.2. */
	if (BPF_CORE_READ_BITFIELD_PROBED(task, on_cpu))
		return LOCK_HOLDER_RUNNING;
	if (BPF_CORE_READ(task, __state) == 0)
		return LOCK_HOLDER_RUNNABLE;
	sleeper = bpf_map_lookup_elem(&sleepers, &address);
	if (sleeper) {
		*next = *sleeper;
		return next->lock == lock ? LOCK_HOLDER_NOBODY : LOCK_HOLDER_LOCK;
	}
	return BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait) ? LOCK_HOLDER_IO
							      : LOCK_HOLDER_SLEEPING;
}

/* Keeps the scratch's frames in holder_stacks; returns their key there, or LOCK_STACK_NONE. */
static __always_inline s32 keep_stack(struct lock_holder_stack *stack)
{
	struct lock_holder_stack *kept;
	u64 hash = 14695981039346656037ULL;
	s32 id;

	for (int i = 0; i < LOCK_STACK_FRAMES; i++)
		hash = (hash ^ stack->frames[i]) * 1099511628211ULL;
	hash ^= hash >> 32;
	stack->hash = hash;
	id = LOCK_HOLDER_STACK_IDS | (hash & (LOCK_HOLDER_STACK_IDS - 1));
	kept = bpf_map_lookup_elem(&holder_stacks, &id);
	if (kept)
		return kept->hash == hash ? id : LOCK_STACK_NONE;
	return bpf_map_update_elem(&holder_stacks, &id, stack, BPF_ANY) ? LOCK_STACK_NONE : id;
}

/* The stack of a task that is off its CPU. */
static __always_inline s32 stack_of(u64 address, struct lock_counts *count)
{
	s32 pid = BPF_CORE_READ((struct task_struct *)address, pid), id = LOCK_STACK_NONE;
	struct switched_out *left;
	struct holder_scratch *scratch;
	struct task_struct *task;
	u32 zero = 0;
	long bytes;

	if (!have_task_from_pid) {
		left = bpf_map_lookup_elem(&switched_out, &address);
		if (left && left->pid == pid)
			id = left->stack_id;
	} else {
		scratch = bpf_map_lookup_elem(&holder_scratch, &zero);
		task = bpf_task_from_pid(pid);
		if (task) {
			if (scratch) {
				*(volatile u64 *)&scratch->address = (u64)task;
				__builtin_memset(&scratch->stack, 0, sizeof(scratch->stack));
				bytes = bpf_get_task_stack(task, scratch->stack.frames,
							   sizeof(scratch->stack.frames), 0);
				if (bytes > 0 && *(volatile u64 *)&scratch->address == address)
					id = keep_stack(&scratch->stack);
			}
			bpf_task_release(task);
		}
	}
	if (id == LOCK_STACK_NONE)
		count->no_holder_stack++;
	return id;
}

static __always_inline bool off_cpu(enum lock_holder_state state)
{
	return state >= LOCK_HOLDER_RUNNABLE;
}

static __always_inline void note_running_holder(u64 task, u64 lock, enum lock_kind kind)
{
	struct held_lock held = { .lock = lock, .kind = kind };

	bpf_map_update_elem(&held_waited, &task, &held, BPF_ANY);
}

/* Reads the present holder of the wait's lock, and the chain from there, into the wait's key. */
static __always_inline void read_holder(struct open_wait *wait, struct lock_counts *count)
{
	struct lock_wait_key *key = &wait->key;
	enum lock_holder_state state;
	struct sleeper next = {}, held = {};
	u64 holder, task;

	key->holder_lock = key->root_lock = 0;
	key->holder_stack_id = key->root_stack_id = LOCK_STACK_NONE;
	key->chain = 0;
	__builtin_memset(key->holder_comm, 0, sizeof(key->holder_comm));
	holder = owner_of(key->lock, key->kind, &state);
	key->holder_state = key->root_state = state;
	if (!holder)
		return;
	state = state_of(holder, key->lock, &next);
	key->holder_state = key->root_state = state;
	if (state == LOCK_HOLDER_NOBODY)
		return;
	count->holders++;
	key->chain = 1;
	BPF_CORE_READ_STR_INTO(&key->holder_comm, (struct task_struct *)holder, comm);
	if (off_cpu(state))
		key->holder_stack_id = stack_of(holder, count);
	if (state == LOCK_HOLDER_RUNNING)
		note_running_holder(holder, key->lock, key->kind);
	if (state != LOCK_HOLDER_LOCK) {
		key->root_stack_id = key->holder_stack_id;
		return;
	}
	key->holder_lock = next.lock;
	task = holder;
	for (int i = 1; i < CHAIN_LOCKS && state == LOCK_HOLDER_LOCK; i++) {
		held = next;
		key->chain = i + 1;
		task = owner_of(held.lock, held.kind, &state);
		if (task)
			state = state_of(task, held.lock, &next);
	}
	key->root_lock = held.lock;
	key->root_state = state;
	if (task && off_cpu(state))
		key->root_stack_id = stack_of(task, count);
	else if (task && state == LOCK_HOLDER_RUNNING)
		note_running_holder(task, held.lock, held.kind);
}

static __always_inline void fall_asleep(struct open_wait *wait)
{
	u64 task = (u64)bpf_get_current_task();
	struct sleeper sleeper = { .lock = wait->key.lock, .kind = wait->key.kind };

	bpf_map_update_elem(&sleepers, &task, &sleeper, BPF_ANY);
}

static __always_inline void wake_up(void)
{
	u64 task = (u64)bpf_get_current_task();

	bpf_map_delete_elem(&sleepers, &task);
}

#endif
