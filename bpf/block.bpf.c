// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * What was the disk told to do, by whom, and how long did each request take?
 *
 * One record a request. Three hot programs: a bio is queued (who, when), its request is issued (what, whose
 * pages), it completes (how long). Written to be cheap, as this runs at hundreds of thousands of requests a second:
 *   - a request in flight lives in an array indexed by its tag, which blk-mq keeps unique per hardware
 *     queue: no hash map, no lock, no allocation;
 *   - a queued bio lives in a 4-way set-associative array indexed by its address; a full set forgets its
 *     oldest bio, and the request then falls back to its own start time (counted);
 *   - a finished record goes to a ring of this CPU in an mmap'ed array. A program is its only writer (the
 *     kernel never nests a program on one CPU), so no lock is needed.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "records.h"

#define MAX_DEVS	 4
#define BIO_SETS	 16384
#define BIO_WAYS	 4
#define MAX_BIOS_COUNTED 1024

#define S_IFMT	0170000
#define S_IFBLK 0060000
#define S_IFREG 0100000
#define PAGE_MAPPING_FLAGS \
	3UL /* include/linux/page-flags.h: set for memory that belongs to no file */
#define BTRFS_SUPER_MAGIC 0x9123683E

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading. */
const volatile u32 dev_count;
const volatile u32 dev_major[MAX_DEVS];
const volatile u32 dev_minor[MAX_DEVS];
const volatile u32 dev_base[MAX_DEVS]; /* first slot of this disk in `inflight` */
const volatile u32 dev_tags[MAX_DEVS]; /* slots a hardware queue */
const volatile bool dev_fua[MAX_DEVS]; /* writes through by itself: no flush behind a FUA write */
const volatile u64 ring_mask;	       /* records a ring, minus one */
const volatile bool have_cgroup;

struct bio_entry {
	u64 bio; /* its kernel address */
	u64 queue_ns;
	u64 insert_ns;
	u32 pid;
	u32 tgid;
	char comm[16];
	u16 requeues;
	u8 in_workload;
	u8 front_merged;
	union {
		u32 slot; /* in bios: where its request is in flight, to be cleared by a requeue */
		u32 flushes; /* in flush_waiters: flushes it has still to cause */
	};
	u32 done_bytes; /* of its request, before that was requeued */
};

struct bio_set {
	struct bio_entry way[BIO_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BIO_SETS);
	__type(key, u32);
	__type(value, struct bio_set);
} bios SEC(".maps");

/* The first bio since the last flush of each disk that asks for one: who the next flush belongs to. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_DEVS);
	__type(key, u32);
	__type(value, struct bio_entry);
} flush_waiters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* resized: hardware queues x tags */
	__type(key, u32);
	__type(value, struct block_inflight);
} inflight SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* resized: two a CPU */
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(struct block_ring)); /* resized: and ring_mask + 1 records */
} rings SEC(".maps");

/* mmap'ed, as reading it by system call would do more than read: see COUNT(). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* resized: CPUs */
	__type(key, u32);
	__type(value, struct block_counts);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} workload_cgroup SEC(".maps");

/* Names a type user space asks BTF for, which nothing else would keep. */
const volatile enum block_flag block_flags_used = BLOCK_FLAG_SYNC;

#define NO_SLOT	       (~0U)
#define FLAG_BIT(name) (1U << bpf_core_enum_value(enum req_flag_bits, name))

static __always_inline struct block_counts *my_counts(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&counts, &cpu);
}

/* Each member is counted by programs that do not meet on a CPU, and none nests itself: no atomic add is needed. */
#define COUNT(member)                                  \
	do {                                           \
		struct block_counts *c_ = my_counts(); \
		if (c_)                                \
			c_->member++;                  \
	} while (0)

/*
 * An object's address as a number. The verifier allows no arithmetic on a typed pointer, but a pointer that was
 * stored and loaded again is a number. A word for each program and CPU, as a program never nests itself.
 */
enum program { PROG_QUEUE, PROG_SPLIT, PROG_FRONTMERGE, PROG_INSERT, PROG_REQUEUE, PROG_ISSUE };

#define MAX_CPUS 8192 /* the kernel's own limit */

struct cache_line {
	volatile u64 word[8];
};

static struct cache_line address_words[MAX_CPUS];

static __always_inline u64 address_of(const void *object, enum program program)
{
	u32 cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1);

	address_words[cpu].word[program] = (u64)object;
	return address_words[cpu].word[program];
}

/* Which of our disks this is; -1: none of them. */
static __always_inline int disk_index(struct gendisk *disk)
{
	u32 major = disk->major, minor = disk->first_minor;

	for (u32 i = 0; i < MAX_DEVS; i++)
		if (i < dev_count && dev_major[i] == major && dev_minor[i] == minor)
			return i;
	return -1;
}

static __always_inline struct bio_set *bio_set_of(u64 bio)
{
	/* Fibonacci hashing: bios are slab objects, so their low bits say little. */
	u32 set = (bio * 0x9E3779B97F4A7C15ULL) >> (64 - 14);

	_Static_assert(BIO_SETS == 1 << 14, "the shift above");
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

/* A place for this bio: its own if it has been here, else the oldest of its set. */
static __always_inline struct bio_entry *claim_bio(u64 bio)
{
	struct bio_set *set = bio_set_of(bio);
	struct bio_entry *oldest;
	u64 old;

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
	old = oldest->bio;
	/* Another CPU may want the same place: the address says whose it is. */
	if (__sync_val_compare_and_swap(&oldest->bio, old, bio) != old) {
		COUNT(bio_evicted);
		return NULL;
	}
	return oldest;
}

static __always_inline void fill_submitter(struct bio_entry *entry, u64 now)
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
	entry->in_workload = !have_cgroup ||
			     bpf_current_task_under_cgroup(&workload_cgroup, 0) == 1;
	bpf_get_current_comm(entry->comm, sizeof(entry->comm));
}

static __always_inline u32 slot_index(struct request *rq, int disk)
{
	u32 tag = rq->tag, i = disk;

	if (i >= MAX_DEVS || tag >= dev_tags[i])
		return NO_SLOT;
	return dev_base[i] + rq->mq_hctx->queue_num * dev_tags[i] + tag;
}

static __always_inline struct block_inflight *slot_of(struct request *rq, int disk)
{
	u32 index = slot_index(rq, disk);

	return bpf_map_lookup_elem(&inflight, &index);
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(bio_queue, struct bio *bio)
{
	struct bio_entry *entry;
	int disk = disk_index(bio->bi_bdev->bd_disk);
	u32 index = disk, flushes = 0;
	u64 address;

	if (disk < 0)
		return 0;
	address = address_of(bio, PROG_QUEUE);
	entry = claim_bio(address);
	if (entry)
		fill_submitter(entry, bpf_ktime_get_ns());
	/* One flush before the data, one behind it if the disk has no FUA (blk_flush_policy()). */
	if (bio->bi_opf & FLAG_BIT(__REQ_PREFLUSH))
		flushes++;
	if (bio->bi_opf & FLAG_BIT(__REQ_FUA) && !dev_fua[index & (MAX_DEVS - 1)])
		flushes++;
	if (!flushes)
		return 0;
	entry = bpf_map_lookup_elem(&flush_waiters, &index);
	if (entry && __sync_val_compare_and_swap(&entry->bio, 0, address) == 0) {
		fill_submitter(entry, bpf_ktime_get_ns());
		entry->flushes = flushes;
	}
	return 0;
}

/* A bio is cut in two: the new front half (bio) was queued when the old one was. */
SEC("tp_btf/block_split")
int BPF_PROG(bio_split, struct bio *bio)
{
	struct bio_entry *from, *to;

	if (disk_index(bio->bi_bdev->bd_disk) < 0)
		return 0;
	from = find_bio(address_of(
		bio->bi_private,
		PROG_SPLIT)); /* bio_submit_split() chains the front to its parent first */
	if (!from)
		return 0;
	to = claim_bio(address_of(bio, PROG_SPLIT));
	if (!to)
		return 0;
	to->queue_ns = from->queue_ns;
	to->insert_ns = 0;
	to->pid = from->pid;
	to->tgid = from->tgid;
	to->requeues = 0;
	to->front_merged = 0;
	to->slot = NO_SLOT;
	to->done_bytes = 0;
	to->in_workload = from->in_workload;
	__builtin_memcpy(to->comm, from->comm, sizeof(to->comm));
	return 0;
}

/* This bio becomes the first of a request that began earlier. */
SEC("tp_btf/block_bio_frontmerge")
int BPF_PROG(bio_frontmerge, struct bio *bio)
{
	struct bio_entry *entry = find_bio(address_of(bio, PROG_FRONTMERGE));

	if (entry)
		entry->front_merged = 1;
	return 0;
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(rq_insert, struct request *rq)
{
	struct bio_entry *entry;

	if (disk_index(rq->q->disk) < 0)
		return 0;
	entry = find_bio(address_of(rq->bio, PROG_INSERT));
	if (entry)
		entry->insert_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * With a scheduler the tag is already given back here, so the count waits with the bio for the next issue; so does
 * what was completed of the request. If that was its first bio and more, the next bio stands for it.
 */
SEC("tp_btf/block_rq_requeue")
int BPF_PROG(rq_requeue, struct request *rq)
{
	int disk = disk_index(rq->q->disk);
	struct block_inflight *slot;
	struct bio_entry *entry;
	u32 index;

	if (disk < 0)
		return 0;
	entry = find_bio(address_of(rq->bio, PROG_REQUEUE));
	if (!entry)
		return 0;
	index = entry->slot != NO_SLOT ? entry->slot : slot_index(rq, disk);
	slot = bpf_map_lookup_elem(&inflight, &index);
	if (slot && slot->request == (u64)rq) {
		if (entry->slot == NO_SLOT) {
			entry->queue_ns = slot->record.queue_ns;
			entry->insert_ns = slot->record.insert_ns;
			entry->requeues = slot->record.requeues;
		}
		entry->done_bytes = slot->done_bytes;
		slot->request = 0;
	}
	entry->requeues++;
	return 0;
}

static __always_inline enum block_op op_of(u32 cmd_flags)
{
	/* enum req_op, fixed numbers since 4.10 (they go to the logs of zoned and NVMe tools) */
	switch (cmd_flags & 0xff) {
	case 0:
		return BLOCK_OP_READ;
	case 1:
		return BLOCK_OP_WRITE;
	case 2:
		return BLOCK_OP_FLUSH;
	case 3:
		return BLOCK_OP_DISCARD;
	case 5:
		return BLOCK_OP_SECURE_ERASE;
	case 9:
		return BLOCK_OP_WRITE_ZEROES;
	case 7:
	case 11:
	case 13:
	case 15:
	case 17:
	case 19:
		return BLOCK_OP_ZONE;
	case 34:
	case 35:
		return BLOCK_OP_DRIVER;
	}
	return BLOCK_OP_OTHER;
}

static __always_inline u32 flags_of(u32 cmd_flags)
{
	return (cmd_flags & FLAG_BIT(__REQ_SYNC) ? BLOCK_FLAG_SYNC : 0) |
	       (cmd_flags & FLAG_BIT(__REQ_META) ? BLOCK_FLAG_META : 0) |
	       (cmd_flags & FLAG_BIT(__REQ_FUA) ? BLOCK_FLAG_FUA : 0) |
	       (cmd_flags & FLAG_BIT(__REQ_PREFLUSH) ? BLOCK_FLAG_PREFLUSH : 0) |
	       (cmd_flags & FLAG_BIT(__REQ_RAHEAD) ? BLOCK_FLAG_AHEAD : 0) |
	       (cmd_flags & FLAG_BIT(__REQ_PRIO) ? BLOCK_FLAG_PRIO : 0);
}

/*
 * Data or metadata, and which file: from the owner of the first page.
 *   META set                             metadata (ext's block device pages, XFS buffers, the btrfs tree inode)
 *   a regular file's page                data of that file
 *   memory of a program (direct I/O)     data, file not known
 *   a page of the device itself          metadata, if a file system (or mkfs) holds the device: ext's indirect
 *                                        blocks, inode read-ahead and superblock come without META
 *   anything else                        unknown
 */
static __always_inline void classify(struct block_record *record, struct bio *bio,
				     struct gendisk *disk)
{
	struct page *page = bio->bi_io_vec->bv_page;
	u64 head, mapping_bits;
	struct address_space *mapping;
	struct block_device *bdev;
	struct inode *host;
	u16 type;

	if (record->flags & BLOCK_FLAG_META) {
		record->class = BLOCK_CLASS_METADATA;
		return;
	}
	head = address_of((void *)page->compound_head, PROG_ISSUE);
	if (head & 1)
		mapping_bits = (u64)BPF_CORE_READ((struct page *)(head - 1), mapping);
	else
		mapping_bits = address_of(page->mapping, PROG_ISSUE);
	if (mapping_bits & PAGE_MAPPING_FLAGS) {
		record->class = BLOCK_CLASS_DATA;
		return;
	}
	if (!mapping_bits)
		return;
	mapping = (struct address_space *)mapping_bits;
	host = BPF_CORE_READ(mapping, host);
	/* What a slab page has in this place is no mapping: only a real one is its host's own. */
	if (!host || BPF_CORE_READ(host, i_mapping) != mapping)
		return;
	type = BPF_CORE_READ(host, i_mode) & S_IFMT;
	if (type == S_IFBLK && bio->bi_bdev->bd_holder)
		record->class = BLOCK_CLASS_METADATA;
	if (type != S_IFREG)
		return;
	record->class = BLOCK_CLASS_DATA;
	/* Direct I/O out of another file's mapped pages would give that file's inode. */
	bdev = BPF_CORE_READ(host, i_sb, s_bdev);
	if ((bdev && BPF_CORE_READ(bdev, bd_disk) == disk) ||
	    BPF_CORE_READ(host, i_sb, s_magic) == BTRFS_SUPER_MAGIC)
		record->ino = BPF_CORE_READ(host, i_ino);
}

static __always_inline u16 count_merges(struct bio *bio)
{
	int merges = 0;

	for (; merges < MAX_BIOS_COUNTED; merges++) {
		bio = bio->bi_next;
		if (!bio)
			return merges;
	}
	COUNT(merges_capped);
	return merges;
}

static __always_inline void copy_submitter(struct block_record *record, struct bio_entry *entry)
{
	record->queue_ns = entry->queue_ns;
	record->insert_ns = entry->insert_ns;
	record->pid = entry->pid;
	record->tgid = entry->tgid;
	record->in_workload = entry->in_workload;
	record->requeues = entry->requeues;
	record->queue_source = BLOCK_SOURCE_BIO;
	__builtin_memcpy(record->comm, entry->comm, sizeof(record->comm));
}

/*
 * Into this CPU's ring. Each program has a ring of its own: its only writer, so no lock is needed.
 */
static __always_inline void write_record(const struct block_record *record,
					 enum block_ring_writer writer)
{
	u32 index = bpf_get_smp_processor_id() * BLOCK_RINGS_PER_CPU + writer;
	struct block_ring *ring = bpf_map_lookup_elem(&rings, &index);
	struct block_record *to;
	u64 head;

	if (!ring)
		return;
	head = ring->head;
	if (head - *(volatile u64 *)&ring->tail > ring_mask) {
		ring->full++;
		return;
	}
	to = (void *)ring + sizeof(*ring) + (head & ring_mask) * sizeof(*to);
	__builtin_memcpy(to, record, sizeof(*to));
	/* The reader must see the record before the new head. x86 keeps the order of stores by itself. */
#ifdef __TARGET_ARCH_x86
	asm volatile("" ::: "memory");
	*(volatile u64 *)&ring->head = head + 1;
#else
	__sync_fetch_and_add(&ring->head, 1);
#endif
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(rq_issue, struct request *rq)
{
	struct gendisk *gendisk = rq->q->disk;
	int disk = disk_index(gendisk);
	struct block_inflight *slot;
	struct block_record *record;
	struct bio_entry *entry = NULL;
	u32 cmd_flags, index = disk;
	struct bio *bio;
	u64 id, now;

	if (disk < 0)
		return 0;
	slot = slot_of(rq, disk);
	if (!slot) {
		COUNT(no_slot);
		return 0;
	}
	record = &slot->record;
	bio = rq->bio;
	cmd_flags = rq->cmd_flags;
	now = bpf_ktime_get_ns();

	if (slot->request) {
		/*
		 * The request that had this tag before has completed, or the tag would not be free, but the kernel
		 * did not run our program then. Seen on 6.18 under heavy interrupt load, a few in 100,000 in batches,
		 * and not in recursion_misses. The request is known, only its end is not.
		 */
		COUNT(complete_unseen);
		record->complete_ns = 0;
		record->error = 0;
		write_record(record, RING_ISSUE);
	}
	slot->request = 0; /* not whole until the end of this program */
	slot->done_bytes = 0;
	record->sector = rq->__sector;
	record->bytes = rq->__data_len;
	record->dev = dev_major[index & (MAX_DEVS - 1)] << 20 | dev_minor[index & (MAX_DEVS - 1)];
	record->op = op_of(cmd_flags);
	record->flags = flags_of(cmd_flags);
	record->ino = 0;
	record->merges = 0;
	record->class = BLOCK_CLASS_UNKNOWN;
	record->issue_ns = now;
	if (bio) {
		entry = find_bio(address_of(bio, PROG_ISSUE));
		if (record->op == BLOCK_OP_READ || record->op == BLOCK_OP_WRITE)
			classify(record, bio, gendisk);
		record->merges = count_merges(bio);
		/* A flush sequence takes these two off the request, not off its bio (blk_insert_flush()). */
		record->flags |=
			flags_of(bio->bi_opf & (FLAG_BIT(__REQ_PREFLUSH) | FLAG_BIT(__REQ_FUA)));
	} else if (record->op == BLOCK_OP_FLUSH) {
		record->sector = 0;
		entry = bpf_map_lookup_elem(&flush_waiters, &index);
		if (entry && !entry->bio)
			entry = NULL;
	}
	if (entry) {
		copy_submitter(record, entry);
		if (bio)
			entry->slot = slot_index(rq, disk);
		/* The row is of the whole request, also if the driver asks again for the rest of it. */
		slot->done_bytes = entry->done_bytes;
		record->bytes += entry->done_bytes;
		record->sector -= entry->done_bytes / 512;
		/* The request is older than the bio that was put before its first. */
		if (entry->front_merged && rq->start_time_ns &&
		    rq->start_time_ns < record->queue_ns)
			record->queue_ns = rq->start_time_ns;
		if (!bio && --entry->flushes == 0)
			entry->bio = 0;
	} else {
		COUNT(bio_unknown);
		id = bpf_get_current_pid_tgid();
		record->queue_ns = rq->start_time_ns && rq->start_time_ns < now ? rq->start_time_ns
										: now;
		record->insert_ns = 0;
		record->pid = (u32)id;
		record->tgid = id >> 32;
		record->requeues = 0;
		record->in_workload = !have_cgroup ||
				      bpf_current_task_under_cgroup(&workload_cgroup, 0) == 1;
		record->queue_source = BLOCK_SOURCE_REQUEST;
		bpf_get_current_comm(record->comm, sizeof(record->comm));
	}
	slot->request = (u64)rq;
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(rq_complete, struct request *rq, u8 error, unsigned int bytes)
{
	int disk = disk_index(rq->q->disk);
	struct block_inflight *slot;

	if (disk < 0)
		return 0;
	if (bytes < rq->__data_len) {
		COUNT(partial);
		slot = slot_of(rq, disk);
		if (slot && slot->request == (u64)rq)
			slot->done_bytes += bytes;
		return 0;
	}
	slot = slot_of(rq, disk);
	if (slot && slot->request == (u64)rq) {
		slot->request = 0;
		slot->record.complete_ns = bpf_ktime_get_ns();
		slot->record.error = error; /* blk_status_t; the recorder makes it an errno */
		COUNT(completed);
		write_record(&slot->record, RING_COMPLETE);
		return 0;
	}
	/*
	 * The request around a flush ends once more when the flush does (blk_flush_complete_seq()): one with data
	 * was recorded when that was written, one without was never issued itself.
	 */
	if (!rq->bio || !(rq->bio->bi_opf & (FLAG_BIT(__REQ_PREFLUSH) | FLAG_BIT(__REQ_FUA))))
		COUNT(issue_unseen);
	else if (!rq->bio->bi_io_vec)
		COUNT(empty_flushes);
	return 0;
}
