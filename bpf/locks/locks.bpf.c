// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Lock waits: lock, call path, waiter, holder, and the time spent spinning and sleeping.
 *
 * Two tracepoints, lock:contention_begin and contention_end. Waits are summed in the kernel by lock, call path and time bin
 * (the bin in which the wait ended). A contended mutex emits several begins (spin, sleep, spin…) and one
 * end; every new begin for the same lock ends a phase. Waits nest (lock_state.h): the time of an inner wait is also part
 * of the outer wait. A wait whose end was missed is dropped, and counted, when a later event proves it.
 *
 * An interrupt's waits are not the workload's, whichever task was interrupted. Interrupts have a kernel stack of their own
 * on x86-64, except those that arrive in user mode: these count as the task's.
 */
#include "common/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "common/over.h"
#include "common/records.h"

#include "lock_holders.h"
#include "lock_object.h"
#include "lock_samples.h"
#include "lock_state.h"
#include "lock_waiter.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Keeps the record's layout in this object's BTF, where the recorder reads it. */
struct lock_wait_record *lock_wait_record_used;

static __always_inline void close_phase(struct open_wait *wait, u64 now)
{
	if (wait->spinning)
		wait->spin_ns += now - wait->phase_ns;
	else
		wait->sleep_ns += now - wait->phase_ns;
	wait->phase_ns = now;
}

static __always_inline enum lock_kind kind_of(u32 flags)
{
	if (flags & LCB_F_MUTEX)
		return LOCK_KIND_MUTEX;
	if (flags & LCB_F_PERCPU)
		return LOCK_KIND_PERCPU_RWSEM;
	if (flags & LCB_F_RT)
		return LOCK_KIND_RTMUTEX;
	if (flags & LCB_F_SPIN)
		return flags & (LCB_F_READ | LCB_F_WRITE) ? LOCK_KIND_RWLOCK : LOCK_KIND_SPINLOCK;
	if (flags & (LCB_F_READ | LCB_F_WRITE))
		return LOCK_KIND_RWSEM;
	return flags ? LOCK_KIND_UNKNOWN : LOCK_KIND_SEMAPHORE;
}

/* Spinlocks and rwlocks; a mutex spins too, but its waiter may sleep. */
static __always_inline bool is_spin_kind(u32 flags)
{
	return (flags & LCB_F_SPIN) && !(flags & LCB_F_MUTEX);
}

static __always_inline enum lock_mode mode_of(u32 flags)
{
	if (flags & LCB_F_READ)
		return LOCK_MODE_READ;
	return flags & LCB_F_WRITE ? LOCK_MODE_WRITE : LOCK_MODE_EXCL;
}

/*
 * Does this begin stand before the writer of a percpu rwsem has tried for it? Then this kernel reports every such
 * writer, contended or not, until Linux kernel commit f3e3620f1a97 ("locking/percpu-rwsem: Trigger contention tracepoints
 * only if contended") (in v6.9). A writer that has tried has called rcu_sync_enter() before, which counts it.
 */
static __always_inline bool is_untried_percpu_writer(u64 lock, u32 flags)
{
	const u32 writer = LCB_F_PERCPU | LCB_F_WRITE;

	return (flags & writer) == writer &&
	       bpf_core_field_exists(struct percpu_rw_semaphore, rss.gp_count) &&
	       BPF_CORE_READ((struct percpu_rw_semaphore *)lock, rss.gp_count) == 0;
}

/*
 * The tracepoint's arguments lie on the present stack: is that the task's own? Their address goes through a map, as the
 * verifier allows no arithmetic on the pointer itself.
 */
static __always_inline bool on_task_stack(struct open_waits *open, void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	*(volatile u64 *)&open->stack_pointer = (u64)ctx;
	return *(volatile u64 *)&open->stack_pointer - (u64)task->stack < KERNEL_STACK_BYTES;
}

/*
 * The stack walk is nine tenths of the cost of a wait. After PATHS_FULL stacks on a CPU in one window of 8 ms, only one
 * in PATHS_ONE_IN is read. All waits are counted and timed.
 */
static __always_inline bool within_budget(struct path_budget *budget, u64 now)
{
	u64 window = now >> PATHS_WINDOW_SHIFT;

	if (budget->window != window) {
		budget->window = window;
		budget->used = 0;
	}
	budget->used++;
	return budget->used <= PATHS_FULL || budget->used % PATHS_ONE_IN == 0;
}

/* Reads the waiter's stack and the lock's holder. */
static __always_inline void read_stack_and_holder(void *ctx, struct open_wait *wait,
						  struct lock_counts *count)
{
	/* No flags: a stack whose slot is taken by another one is not kept. */
	wait->key.stack_id = bpf_get_stackid(ctx, &stacks, 0);
	if (wait->key.stack_id < 0) {
		wait->key.stack_id = LOCK_STACK_NONE;
		count->no_stack++;
	}
	read_holder(wait, count);
}

/* Room for one more wait, which is open once depth counts it. Drops waits too old to be true. NULL: no room. */
static __always_inline struct open_wait *
next_wait(struct open_waits *open, struct lock_counts *count, u64 now, u64 expiry_ns)
{
	u32 depth = open->depth;

	if (depth >= DEPTH) {
		if (now - open->wait[0].begin_ns < expiry_ns) {
			count->too_deep++;
			return NULL;
		}
		count->end_missed_begin += depth;
		depth = 0;
	}
	if (depth)
		count->nested++;
	open->depth = depth;
	return &open->wait[depth & (DEPTH - 1)];
}

static __always_inline void begin_wait(void *ctx, struct open_waits *open,
				       struct lock_counts *count, u64 lock, u32 flags)
{
	u64 now = bpf_ktime_get_ns();
	u32 zero = 0, pid = (u32)bpf_get_current_pid_tgid();
	bool spin_kind = is_spin_kind(flags);
	bool spinning = flags & LCB_F_SPIN;
	struct open_wait *wait;
	struct path_budget *budget = bpf_map_lookup_elem(&wait_paths, &zero);
	int at;

	if (!budget)
		return;
	if (!spin_kind)
		open = bpf_task_storage_get(&task_waits, bpf_get_current_task_btf(), NULL,
					    BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!open) {
		count->no_storage++;
		return;
	}

	at = find_wait(open, lock, pid);
	if (at >= 0) {
		wait = &open->wait[at & (DEPTH - 1)];
		/* A mutex alternates; if it begins to spin twice, the end of the first wait was missed. */
		if ((flags & LCB_F_MUTEX) && !(spinning && wait->spinning)) {
			close_phase(wait, now);
			wait->spinning = spinning;
			count->rebegins++;
			if (!spinning) {
				if (wait->key.stack_id == LOCK_STACK_NOT_SAMPLED) {
					count->not_sampled--;
					read_stack_and_holder(ctx, wait, count);
				} else {
					read_holder(wait, count);
				}
				fall_asleep(wait);
			}
			return;
		}
		count->end_missed_begin += open->depth - at;
		open->depth = at;
	}

	wait = next_wait(open, count, now, spin_kind ? SPIN_EXPIRY_NS : SLEEP_EXPIRY_NS);
	if (!wait)
		return;
	count->waits++;
	if (is_untried_percpu_writer(lock, flags))
		count->percpu_untried++;
	__builtin_memset(&wait->key, 0, sizeof(wait->key));
	wait->key.lock = lock;
	wait->begin_ns = wait->phase_ns = now;
	wait->spin_ns = wait->sleep_ns = 0;
	wait->pid = pid;
	wait->key.kind = kind_of(flags);
	wait->key.mode = mode_of(flags);
	wait->spinning = spinning;
	note_waiter(&wait->key.waiter, spin_kind && !on_task_stack(open, ctx));
	if (!spinning || within_budget(budget, now)) {
		read_stack_and_holder(ctx, wait, count);
	} else {
		count->not_sampled++;
		wait->key.stack_id = LOCK_STACK_NOT_SAMPLED;
		wait->key.holder_stack_id = wait->key.root_stack_id = LOCK_STACK_NONE;
		if (wait->key.kind == LOCK_KIND_MUTEX)
			wait->key.holder_state = wait->key.root_state = LOCK_HOLDER_NOT_SAMPLED;
	}
	if (!spinning)
		fall_asleep(wait);
	open->depth++;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, u32 flags)
{
	u32 zero = 0;
	struct lock_counts *count = bpf_map_lookup_elem(&counts, &zero);
	struct open_waits *of_cpu = bpf_map_lookup_elem(&cpu_waits, &zero);

	if (!count || !of_cpu || is_over)
		return 0;
	count->begins++;
	if (of_cpu->at_work == AT_WORK_END && is_spin_kind(flags)) {
		count->waits++;
		count->end_missed_begin++;
		return 0;
	}
	set_at_work(of_cpu, AT_WORK_BEGIN);
	begin_wait(ctx, of_cpu, count, (u64)lock, flags);
	set_at_work(of_cpu, AT_WORK_NONE);
	return 0;
}

static __always_inline void sum_up(struct lock_wait_sum *sum, const struct open_wait *wait,
				   bool failed)
{
	u64 ns = wait->spin_ns + wait->sleep_ns;

	sum->spin_ns += wait->spin_ns;
	sum->sleep_ns += wait->sleep_ns;
	sum->count++;
	if (ns > sum->max_ns)
		sum->max_ns = ns;
	sum->failed += failed;
}

static __always_inline bool same_waiter(const struct lock_waiter_id *one,
					const struct lock_waiter_id *other)
{
	const u64 *a = (const u64 *)one, *b = (const u64 *)other;

	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

/* False: the entry belongs to another lock or waiter in this bin. */
static __always_inline bool add_hot(const struct open_wait *wait, u32 slot, bool failed)
{
	const struct lock_wait_key *key = &wait->key;
	u32 at = slot * cpus + bpf_get_smp_processor_id();
	struct lock_hot_sums *sums = bpf_map_lookup_elem(&hot, &at);
	struct lock_hot *entry;

	if (!sums)
		return false;
	entry = &sums->locks[(key->lock * 0x9E3779B97F4A7C15ULL >> 32) & (LOCK_HOT - 1)];
	if (!entry->lock) {
		entry->lock = key->lock;
		entry->kind = key->kind;
		entry->mode = key->mode;
		entry->waiter = key->waiter;
		note_object(key->lock);
	} else if (entry->lock != key->lock || entry->kind != key->kind ||
		   entry->mode != key->mode || !same_waiter(&entry->waiter, &key->waiter)) {
		return false;
	}
	sum_up(&entry->sum, wait, failed);
	return true;
}

static __always_inline void add(struct open_wait *wait, struct lock_counts *count, u64 now,
				bool failed)
{
	u64 bin = bin_of(&cuts, bin_ns, now);
	u32 slot = bin % LOCK_BIN_SLOTS;
	struct lock_wait_sum *sum;
	void *sums;
	int err; /* before 6.4 (d7ba4cc900bf) the upper half of what the helper returns is not set */

	if (bin - drained_to >= LOCK_BIN_SLOTS) {
		count->late++;
		return;
	}
	if (wait->key.stack_id == LOCK_STACK_NOT_SAMPLED && add_hot(wait, slot, failed)) {
		count->counted++;
		return;
	}
	sums = bpf_map_lookup_elem(&bins, &slot);
	if (!sums)
		return;
	sum = bpf_map_lookup_elem(sums, &wait->key);
	if (!sum) {
		struct lock_wait_sum none = {};

		err = bpf_map_update_elem(sums, &wait->key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(sums, &wait->key);
		if (!sum) {
			if (err == -E2BIG)
				count->map_full++;
			else
				count->map_busy++;
			return;
		}
		note_object(wait->key.lock);
	}
	sum_up(sum, wait, failed);
	count->counted++;
}

static __always_inline void end_wait(struct open_waits *open, struct lock_counts *count, u64 lock,
				     int ret)
{
	u32 pid = (u32)bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();
	struct open_wait *wait;
	int at = find_wait(open, lock, pid);

	if (at < 0) {
		open = bpf_task_storage_get(&task_waits, bpf_get_current_task_btf(), NULL, 0);
		if (open)
			at = find_wait(open, lock, pid);
	}
	if (!open || at < 0) {
		count->not_begun++;
		return;
	}
	count->end_missed_end += open->depth - 1 - at;
	open->depth = at;
	wait = &open->wait[at & (DEPTH - 1)];
	close_phase(wait, now);
	if (wait->sleep_ns)
		wake_up();
	add(wait, count, now, ret < 0);
}

SEC("tp_btf/contention_end")
int BPF_PROG(contention_end, void *lock, int ret)
{
	struct bin_epoch *epoch = &epochs[bpf_get_smp_processor_id() & (BIN_CPUS - 1)];
	u32 zero = 0;
	struct lock_counts *count = bpf_map_lookup_elem(&counts, &zero);
	struct open_waits *of_cpu = bpf_map_lookup_elem(&cpu_waits, &zero);

	if (!count || !of_cpu || is_over)
		return 0;
	count->ends++;
	if (of_cpu->at_work == AT_WORK_BEGIN) {
		count->not_begun++;
		return 0;
	}
	set_at_work(of_cpu, AT_WORK_END);
	*(volatile u64 *)&epoch->count += 1;
	end_wait(of_cpu, count, (u64)lock, ret);
	*(volatile u64 *)&epoch->count += 1;
	set_at_work(of_cpu, AT_WORK_NONE);
	return 0;
}

/* Without bpf_task_from_pid(): keeps each task's stack, in case the task holds a lock that others will wait for. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev)
{
	u64 now = bpf_ktime_get_ns(), address = (u64)bpf_get_current_task();
	struct switched_out left = { .pid = (s32)bpf_get_current_pid_tgid() };
	u32 zero = 0;
	struct lock_counts *count = bpf_map_lookup_elem(&counts, &zero);
	struct path_budget *budget = bpf_map_lookup_elem(&switch_paths, &zero);

	if (!count || !budget || !left.pid)
		return 0;
	if (within_budget(budget, now)) {
		left.stack_id = bpf_get_stackid(ctx, &stacks, 0);
		if (left.stack_id >= 0 &&
		    !bpf_map_update_elem(&switched_out, &address, &left, BPF_ANY))
			return 0;
	}
	count->no_switch_stack++;
	bpf_map_delete_elem(&switched_out, &address);
	return 0;
}
