// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Which locks are waited for, from where, how long, spinning or sleeping?
 *
 * Two tracepoints, lock:contention_begin and contention_end, summed in the kernel by lock, call path and time bin
 * (the bin in which the wait ended). A contended mutex emits several begins (spin, sleep, spin…) and one
 * end; every new begin of the same lock closes a phase. Waits nest: a spinning wait can be interrupted by
 * another on the same CPU, so spinning kinds have a small stack of open waits a CPU; sleeping kinds have
 * one a task. Waits whose end was never seen are dropped when something later proves it, and counted. A nested
 * wait's time is also part of the wait around it.
 *
 * What an interrupt waits for is not the workload's, whatever task it hit. Interrupts have a kernel stack of
 * their own on x86-64, except those that arrive in user mode: these count as the task's.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "records.h"

/* include/trace/events/lock.h */
#define LCB_F_SPIN   1U
#define LCB_F_READ   2U
#define LCB_F_WRITE  4U
#define LCB_F_RT     8U
#define LCB_F_PERCPU 16U
#define LCB_F_MUTEX  32U

#define DEPTH 8 /* waits open at once; a power of two */
#define SPIN_EXPIRY_NS \
	4000000000ULL /* nobody spins that long and lives (the watchdog's limit is 20 s) */
#define SLEEP_EXPIRY_NS		   60000000000ULL
#define KERNEL_STACK_BYTES	   16384 /* x86-64, arm64 */
#define SLAB_LOCKS		   16384
#define BPF_MAP_TYPE_ARRAY_OF_MAPS 12
#define E2BIG			   7

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading. */
const volatile u64 bin_ns = 100000000;
const volatile bool have_cgroup;
const volatile bool have_kmem_cache; /* the kernel has bpf_get_kmem_cache() (6.14) */

/* Set by the recorder as it empties bins. */
volatile u64 drained_to;
struct bin_turn turns[BIN_CPUS];

struct open_wait {
	u64 lock;
	u64 begin_ns;
	u64 phase_ns; /* begin of the present phase */
	u64 spin_ns;  /* phases that are over */
	u64 sleep_ns;
	u32 pid;
	s32 stack_id;
	enum lock_kind kind;
	enum lock_mode mode;
	u8 in_workload;
	u8 spinning;
};

struct open_waits {
	u64 stack_pointer; /* see on_task_stack() */
	u32 depth;
	struct open_wait wait[DEPTH];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct open_waits);
} cpu_waits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct open_waits);
} task_waits SEC(".maps");

struct wait_sums {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 8192); /* resized */
	__type(key, struct lock_wait_key);
	__type(value, struct lock_wait_sum);
} sums0 SEC(".maps"), sums1 SEC(".maps"), sums2 SEC(".maps"), sums3 SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, LOCK_BIN_SLOTS);
	__type(key, u32);
	__array(values, struct wait_sums);
} bins SEC(".maps") = { .values = { &sums0, &sums1, &sums2, &sums3 } };

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 32768);
	__uint(key_size, sizeof(u32));
	__uint(value_size, LOCK_STACK_FRAMES * sizeof(u64));
} stacks SEC(".maps");

struct slab_name {
	char name[LOCK_SLAB_NAME]; /* empty: not in a slab object */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SLAB_LOCKS);
	__type(key, u64);
	__type(value, struct slab_name);
} slabs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lock_counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} workload_cgroup SEC(".maps");

/* Keeps the record's layout in this object's BTF, where the recorder reads it. */
struct lock_wait_record *lock_wait_record_used;

extern struct kmem_cache *bpf_get_kmem_cache(u64 addr) __ksym __weak;

/* Where this wait is open; -1: nowhere. */
static __always_inline int find_wait(struct open_waits *open, u64 lock, u32 pid)
{
	u32 depth = open->depth;

	for (int i = 0; i < DEPTH; i++) {
		if (i >= depth)
			break;
		if (open->wait[i].lock == lock && open->wait[i].pid == pid)
			return i;
	}
	return -1;
}

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

static __always_inline enum lock_mode mode_of(u32 flags)
{
	if (flags & LCB_F_READ)
		return LOCK_MODE_READ;
	return flags & LCB_F_WRITE ? LOCK_MODE_WRITE : LOCK_MODE_EXCL;
}

/*
 * The tracepoint's arguments lie on the stack we were called on: is it the task's own? Their address goes
 * through a map, from where it comes back as a number: the verifier allows no sums with the pointer itself.
 */
static __always_inline bool on_task_stack(struct open_waits *open, void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	*(volatile u64 *)&open->stack_pointer = (u64)ctx;
	return *(volatile u64 *)&open->stack_pointer - (u64)task->stack < KERNEL_STACK_BYTES;
}

/* Room for one more wait, forgetting what is too old to be true; not open until depth counts it. NULL: none. */
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

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock_pointer, u32 flags)
{
	u64 now = bpf_ktime_get_ns(), lock = (u64)lock_pointer;
	u32 zero = 0, pid = (u32)bpf_get_current_pid_tgid();
	bool spin_kind = (flags & LCB_F_SPIN) && !(flags & LCB_F_MUTEX);
	bool spinning = flags & LCB_F_SPIN;
	struct open_waits *open;
	struct open_wait *wait;
	struct lock_counts *count;
	int at;

	count = bpf_map_lookup_elem(&counts, &zero);
	if (!count)
		return 0;
	count->begins++;
	if (spin_kind)
		open = bpf_map_lookup_elem(&cpu_waits, &zero);
	else
		open = bpf_task_storage_get(&task_waits, bpf_get_current_task_btf(), NULL,
					    BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!open) {
		count->no_storage++;
		return 0;
	}

	at = find_wait(open, lock, pid);
	if (at >= 0) {
		wait = &open->wait[at & (DEPTH - 1)];
		/* A mutex alternates; one that begins to spin twice has been taken in between, unseen. */
		if ((flags & LCB_F_MUTEX) && !(spinning && wait->spinning)) {
			close_phase(wait, now);
			wait->spinning = spinning;
			count->rebegins++;
			return 0;
		}
		count->end_missed_begin += open->depth - at;
		open->depth = at;
	}

	wait = next_wait(open, count, now, spin_kind ? SPIN_EXPIRY_NS : SLEEP_EXPIRY_NS);
	if (!wait)
		return 0;
	count->waits++;
	wait->lock = lock;
	wait->begin_ns = wait->phase_ns = now;
	wait->spin_ns = wait->sleep_ns = 0;
	wait->pid = pid;
	wait->kind = kind_of(flags);
	wait->mode = mode_of(flags);
	wait->spinning = spinning;
	if (spin_kind && !on_task_stack(open, ctx))
		wait->in_workload = 0;
	else
		wait->in_workload = !have_cgroup ||
				    bpf_current_task_under_cgroup(&workload_cgroup, 0) == 1;
	/* No flags: a stack that falls on another's place is not kept, rather than taken for it. */
	wait->stack_id = bpf_get_stackid(ctx, &stacks, 0);
	if (wait->stack_id < 0) {
		wait->stack_id = -1;
		count->no_stack++;
	}
	/* Last, as an interrupt may look for its own wait here in between. */
	*(volatile u32 *)&open->depth += 1;
	return 0;
}

/* The lock is held now, so the object it is in can't go away. */
static __always_inline void note_slab(u64 lock)
{
	struct slab_name slab = {};
	struct kmem_cache *cache;

	if (!have_kmem_cache || bpf_map_lookup_elem(&slabs, &lock))
		return;
	cache = bpf_get_kmem_cache(lock);
	if (cache)
		bpf_probe_read_kernel_str(slab.name, sizeof(slab.name), cache->name);
	bpf_map_update_elem(&slabs, &lock, &slab, BPF_ANY);
}

static __always_inline void add(struct open_wait *wait, struct lock_counts *count, u64 now,
				bool failed)
{
	struct lock_wait_key key = {
		.lock = wait->lock,
		.stack_id = wait->stack_id,
		.kind = wait->kind,
		.mode = wait->mode,
		.in_workload = wait->in_workload,
	};
	u64 bin = now / bin_ns, ns = wait->spin_ns + wait->sleep_ns;
	u32 slot = bin % LOCK_BIN_SLOTS;
	struct lock_wait_sum *sum;
	void *sums;
	int err; /* before 6.4 (d7ba4cc900bf) the upper half of what the helper returns is not set */

	if (bin - drained_to >= LOCK_BIN_SLOTS) {
		count->late++;
		return;
	}
	sums = bpf_map_lookup_elem(&bins, &slot);
	if (!sums)
		return;
	sum = bpf_map_lookup_elem(sums, &key);
	if (!sum) {
		struct lock_wait_sum none = {};

		err = bpf_map_update_elem(sums, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(sums, &key);
		if (!sum) {
			if (err == -E2BIG)
				count->map_full++;
			else
				count->map_busy++;
			return;
		}
		note_slab(wait->lock);
	}
	sum->spin_ns += wait->spin_ns;
	sum->sleep_ns += wait->sleep_ns;
	sum->count++;
	if (ns > sum->max_ns)
		sum->max_ns = ns;
	sum->failed += failed;
	count->counted++;
}

static __always_inline void end_wait(u64 lock, int ret)
{
	u32 zero = 0, pid = (u32)bpf_get_current_pid_tgid();
	u64 now = bpf_ktime_get_ns();
	struct lock_counts *count = bpf_map_lookup_elem(&counts, &zero);
	struct open_waits *open = bpf_map_lookup_elem(&cpu_waits, &zero);
	struct open_wait *wait;
	int at;

	if (!count || !open)
		return;
	count->ends++;
	at = find_wait(open, lock, pid);
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
	add(wait, count, now, ret < 0);
}

SEC("tp_btf/contention_end")
int BPF_PROG(contention_end, void *lock, int ret)
{
	struct bin_turn *turn = &turns[bpf_get_smp_processor_id() & (BIN_CPUS - 1)];

	*(volatile u64 *)&turn->count += 1;
	end_wait((u64)lock, ret);
	*(volatile u64 *)&turn->count += 1;
	return 0;
}
