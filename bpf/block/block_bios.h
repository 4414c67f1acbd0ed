/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Queued bios, from submission to the issue of their request: submitter and times.
 *
 * A 4-way set-associative array indexed by the bio's address. A full set drops its oldest bio; that bio's request
 * takes its own start time and the issuing task instead, and is counted.
 */
#ifndef SEEKMETER_BLOCK_BIOS_H
#define SEEKMETER_BLOCK_BIOS_H

#include "block_state.h"
#include "block_why.h"
#include "common/tasks.h"
#include "common/workload_cgroup.h"

#define BIO_SET_BITS	 14
#define BIO_WAYS	 4
#define MAX_FRONT_MERGES 128

/* A cache line, and why the bio was sent. */
struct bio_entry {
	u64 bio; /* its kernel address */
	u64 queue_ns;
	u64 insert_ns;
	u32 pid;
	u32 tgid;
	char comm[16];
	u16 requeues;
	enum block_submitter submitter;
	u8 front_merged;
	union {
		u32 slot;    /* in `bios`: its request's slot in `inflight`, cleared by a requeue */
		u32 flushes; /* in flush_waiters: flushes the bio has still to cause */
	};
	union {
		u32 done_bytes; /* in `bios`: completed of its request before the requeue */
		u32 sb_dev;	/* in flush_waiters: see sent_to() */
	};
	u32 cgroup; /* see cgroup_now() */
	struct block_why why;
};

struct bio_set {
	struct bio_entry way[BIO_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << BIO_SET_BITS);
	__type(key, u32);
	__type(value, struct bio_set);
} bios SEC(".maps");

/* By disk: the first bio since the last flush that needs a flush. The next flush is attributed to this bio. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_DEVS);
	__type(key, u32);
	__type(value, struct bio_entry);
} flush_waiters SEC(".maps");

/*
 * Replaces `old` by `new` if no other CPU does so at the same time; false: another CPU did. Before Linux kernel commit
 * 5ffa25502b5a ("bpf: Add instructions for atomic_[cmp]xchg") (in v5.12) there is no compare-and-swap: the difference is
 * added, and taken back if the word read then is not `new`.
 */
static __always_inline bool replace(u64 *word, u64 old, u64 new, bool have_cmpxchg)
{
	if (have_cmpxchg)
		return __sync_val_compare_and_swap(word, old, new) == old;
	__sync_fetch_and_add(word, new - old);
	if (*(volatile u64 *)word == new)
		return true;
	__sync_fetch_and_add(word, old - new);
	return false;
}

static __always_inline struct bio_set *bio_set_of(u64 bio)
{
	u32 set = hash_to(bio, BIO_SET_BITS);

	return bpf_map_lookup_elem(&bios, &set);
}

static __always_inline struct bio_entry *find_bio(u64 bio)
{
	struct bio_set *set = bio_set_of(bio);

	if (!set)
		return NULL;
#pragma unroll
	for (int i = 0; i < BIO_WAYS; i++)
		if (set->way[i].bio == bio)
			return &set->way[i];
	return NULL;
}

/* The entry for this bio: its own if it has one, else the oldest of its set. */
static __always_inline struct bio_entry *claim_bio(u64 bio, bool have_cmpxchg)
{
	struct bio_set *set = bio_set_of(bio);
	struct bio_entry *oldest;

	if (!set)
		return NULL;
	oldest = &set->way[0];
#pragma unroll
	for (int i = 0; i < BIO_WAYS; i++) {
		if (set->way[i].bio == bio)
			return &set->way[i];
		if (set->way[i].queue_ns < oldest->queue_ns)
			oldest = &set->way[i];
	}
	/* Another CPU may claim the same entry: the address in the entry decides. */
	if (!replace(&oldest->bio, oldest->bio, bio, have_cmpxchg)) {
		COUNT(bio_evicted);
		return NULL;
	}
	return oldest;
}

/* Cleared first: some kernels (6.1) write the name and one NUL only. */
static __always_inline void get_comm(char *comm)
{
	__builtin_memset(comm, 0, 16);
	bpf_get_current_comm(comm, 16);
}

/* Kind of the current task. The workload's tasks are checked for first: theirs are most bios. */
static __always_inline enum block_submitter submitter_now(void)
{
	s32 tgid = bpf_get_current_pid_tgid() >> 32, parent_tgid;
	u32 flags;

	if (in_workload_cgroup())
		return BLOCK_SUBMITTER_WORKLOAD;
	/* Without a call for each member, since 5.11: about 80 ns less. */
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf)) {
		struct task_struct *task = bpf_get_current_task_btf();

		flags = task->flags;
		parent_tgid = task->real_parent->tgid;
	} else {
		struct task_struct___who *task = (void *)bpf_get_current_task();

		flags = BPF_CORE_READ(task, flags);
		parent_tgid = BPF_CORE_READ(task, real_parent, tgid);
	}
	if (flags & PF_KTHREAD)
		return flags & PF_LOCAL_THROTTLE ? BLOCK_SUBMITTER_UPPER_DEVICE
						 : BLOCK_SUBMITTER_KERNEL_THREAD;
	if (tgid == recorder_tgid || tgid == session_tgid || parent_tgid == session_tgid)
		return BLOCK_SUBMITTER_RECORDER;
	return BLOCK_SUBMITTER_OTHER;
}

/*
 * cgroup2 id of the current task; 0: not known. An id has 64 bits, of which the kernel sets the upper ones only after
 * 2^31 cgroups and files of cgroups (kernfs): four bytes are kept.
 */
static __always_inline u32 cgroup_now(void)
{
	u64 id = bpf_get_current_cgroup_id();

	return id >> 32 ? 0 : id;
}

static __always_inline bool is_in_workload(enum block_submitter submitter)
{
	return !have_cgroup || submitter == BLOCK_SUBMITTER_WORKLOAD;
}

/* Of a bio with an origin, who has the submitter. */
static __always_inline void fill_times(struct bio_entry *entry, u64 now)
{
	entry->queue_ns = now;
	entry->insert_ns = 0;
	entry->pid = 0;
	entry->tgid = 0;
	entry->requeues = 0;
	entry->front_merged = 0;
	entry->slot = NO_SLOT;
	entry->done_bytes = 0;
	entry->cgroup = 0;
	entry->submitter = BLOCK_SUBMITTER_UNKNOWN;
	__builtin_memset(entry->comm, 0, sizeof(entry->comm));
	__builtin_memset(&entry->why, 0, sizeof(entry->why));
	entry->why.call = CALL_NONE;
}

static __always_inline void fill_submitter(struct bio_entry *entry, struct bio *bio, u64 address,
					   enum program program, u64 now)
{
	u64 id = bpf_get_current_pid_tgid();

	entry->queue_ns = now;
	entry->insert_ns = 0;
	entry->pid = (u32)id;
	entry->tgid = id >> 32;
	entry->requeues = 0;
	entry->front_merged = 0;
	entry->slot = NO_SLOT;
	entry->done_bytes = 0;
	entry->cgroup = cgroup_now();
	entry->submitter = submitter_now();
	get_comm(entry->comm);
	fill_why(&entry->why, bio, address, program);
}

/*
 * The bio that a request was made of, before front merges; `bio` is its first bio now. 0: a bio in front is not in the
 * table, or there are too many. __noinline: the verifier checks such a function (and its loop) once per program, not
 * once per path to it. The same holds for take_times().
 */
__noinline u64 made_of(u64 bio)
{
	struct bio_entry *entry;

	for (int i = 0; i <= MAX_FRONT_MERGES && bio; i++) {
		entry = find_bio(bio);
		if (!entry)
			return 0;
		if (!entry->front_merged)
			return bio;
		bio = (u64)BPF_CORE_READ((struct bio *)bio, bi_next);
	}
	return 0;
}

/*
 * Lowers the times of the entry of `first` to those of a request that begins (or began) with `bio`. Returns 0 if those
 * are not known: start_ns, the request's own start time, is used then.
 */
__noinline int take_times(u64 first, u64 bio, u64 start_ns)
{
	struct bio_entry *entry = find_bio(first), *oldest = NULL;
	u64 queue_ns = start_ns, insert_ns = 0;

	bio = made_of(bio);
	if (bio)
		oldest = find_bio(bio);
	if (oldest) {
		queue_ns = oldest->queue_ns;
		insert_ns = oldest->insert_ns;
	}
	if (!entry)
		return 0;
	if (queue_ns && queue_ns < entry->queue_ns)
		entry->queue_ns = queue_ns;
	if (insert_ns && (!entry->insert_ns || insert_ns < entry->insert_ns))
		entry->insert_ns = insert_ns;
	return oldest ? 1 : 0;
}

/*
 * After a front merge: gives the new first bio the request's times. Not done in bio_frontmerge(), as that tracepoint does
 * not pass the request.
 */
static __always_inline void settle_front_merge(struct bio_entry *entry, struct request *rq)
{
	if (!entry->front_merged)
		return;
	if (!take_times(entry->bio, entry->bio, rq->start_time_ns))
		COUNT(merged_unknown);
	entry->front_merged = 0;
}

static __always_inline void copy_submitter(struct block_record *record, struct bio_entry *entry)
{
	record->queue_ns = entry->queue_ns;
	record->insert_ns = entry->insert_ns;
	record->pid = entry->pid;
	record->tgid = entry->tgid;
	record->cgroup = entry->cgroup;
	record->in_workload = is_in_workload(entry->submitter);
	record->submitter = entry->submitter;
	record->requeues = entry->requeues;
	record->queue_source = BLOCK_SOURCE_BIO;
	__builtin_memcpy(record->comm, entry->comm, sizeof(record->comm));
	__builtin_memcpy(record, &entry->why, sizeof(entry->why));
}

#endif
