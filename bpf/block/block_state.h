/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Settings, counts, and tables of requests in flight and of records; part of block.bpf.c.
 */
#ifndef SEEKMETER_BLOCK_STATE_H
#define SEEKMETER_BLOCK_STATE_H

#include "common/over.h"

#define MAX_CPUS	 8192 /* the kernel's own limit */
#define MAX_BIOS_COUNTED 1024 /* of a request */

/* Set before loading. */
const volatile u32 dev_number[MAX_DEVS]; /* major << 20 | minor, by index */
const volatile u32 dev_base[MAX_DEVS];	 /* first slot of this disk in `inflight` */
const volatile u32 dev_tags[MAX_DEVS];	 /* slots a hardware queue */
const volatile bool dev_fua[MAX_DEVS];	 /* the disk does FUA: no flush behind a FUA write */
u64 attached_ns;			 /* set when all programs are attached */
volatile bool recording; /* set when all sources are attached; the rings are not emptied before */
const volatile u64 ring_mask, volume_ring_mask; /* records a ring, minus one */
const volatile bool have_loops;			/* a recorded disk is a loop device */
const volatile bool have_volumes; /* if not, the verifier drops all that is for volumes */
const volatile bool dev_has_parts[MAX_DEVS];  /* the volume is made of other devices */
const volatile bool dev_has_parity[MAX_DEVS]; /* the volume is a raid4, raid5 or raid6 */
const volatile bool
	dev_has_requests[MAX_DEVS]; /* the volume has a queue of requests (dm-multipath) */
const volatile bool dev_shares_pages
	[MAX_DEVS]; /* the volume queues clones without a remap: bcache, LVM's raid */
const volatile bool have_sharing, have_parity; /* any volume does, any is one */
/* md: sectors before the data on each member; the member with the volume's first sector, 0: not known. */
const volatile u64 dev_data_offset[MAX_DEVS];
const volatile u32 dev_first_member[MAX_DEVS];
/* Disks without a device number, by name (paths of NVMe multipath), and the numbers given to these. */
const volatile u32 hidden_count;
const volatile struct hidden_disk hidden_disks[HIDDEN_MAX];
const volatile u64 memory_cgroup_id; /* the workload's own; 0: none */
/*
 * Which argument of a tracepoint the bio or request is: the first, but behind its queue (and, of a front merge, its
 * request) before Linux kernel commits a54895fa057c ("block: remove the request_queue to argument request based
 * tracepoints"), e8a676d61c07 ("block: simplify and extend the block_bio_merge tracepoint class") and eb6f7f7cd3af
 * ("block: remove the request_queue argument to the block_split tracepoint") (all in v5.11; the first also in stable
 * kernels).
 */
const volatile u32 queue_bio_at, split_bio_at, frontmerge_bio_at;
const volatile u32 insert_rq_at, requeue_rq_at, issue_rq_at, merge_rq_at;
/* Behind it: the old device, and the sector there. */
const volatile u32 remap_bio_at, remap_rq_at;
const volatile u32 end_bio_at; /* of block_bio_complete */
/*
 * By the kernel's number of an operation (enum req_op), which the recorder reads in the kernel's BTF. The numbers are
 * no ABI: zone operations moved by two with Linux kernel commit 19de03b312d6 ("block: make REQ_OP_ZONE_OPEN a write
 * operation") (in v6.18, and in stable kernels), and 7 was a write-same before it was a zone operation.
 */
const volatile enum block_op block_ops[REQ_OP_NUMBERS];
/* Does the kernel have the tracepoint block_rq_merge? Else a merged request's queue time is its start time. */
const volatile bool sees_rq_merge;

/* A tracepoint's argument. In assembly, as an offset in the context must be a constant in each branch. */
#define ARGUMENT(ctx, at)                                                                    \
	({                                                                                   \
		void *argument_;                                                             \
		if (at == 0)                                                                 \
			asm volatile("%0 = *(u64 *)(%1 + 0)" : "=r"(argument_) : "r"(ctx));  \
		else if (at == 1)                                                            \
			asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(argument_) : "r"(ctx));  \
		else if (at == 2)                                                            \
			asm volatile("%0 = *(u64 *)(%1 + 16)" : "=r"(argument_) : "r"(ctx)); \
		else                                                                         \
			asm volatile("%0 = *(u64 *)(%1 + 24)" : "=r"(argument_) : "r"(ctx)); \
		argument_;                                                                   \
	})

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* resized: hardware queues x tags */
	__type(key, u32);
	__type(value, struct block_inflight);
} inflight SEC(".maps");

/* mmap'ed, so that reading it every few milliseconds takes no system call. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* resized: CPUs */
	__type(key, u32);
	__type(value, struct block_counts);
} counts SEC(".maps");

/* Keeps enum block_flag in this object's BTF, where the recorder reads the names of the flags. */
const volatile enum block_flag block_flags_used = BLOCK_FLAG_SYNC;

#define NO_SLOT	       (~0U)
#define FLAG_BIT(name) (1U << bpf_core_enum_value(enum req_flag_bits, name))

/* Fibonacci hashing to so many bits: bios are slab objects, so the low bits of their addresses say little. */
static __always_inline u32 hash_to(u64 key, u32 bits)
{
	return (key * 0x9E3779B97F4A7C15ULL) >> (64 - bits);
}

static __always_inline struct block_counts *my_counts(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&counts, &cpu);
}

/* No atomic add: the programs that count a member never run nested on a CPU. */
#define COUNT(member)                                  \
	do {                                           \
		struct block_counts *c_ = my_counts(); \
		if (c_)                                \
			c_->member++;                  \
	} while (0)

/*
 * An object's address as a number: the verifier allows no arithmetic on a typed pointer, but a pointer stored and
 * loaded again is a number. One word for each program and CPU, as a program never nests in itself.
 */
enum program {
	PROG_QUEUE,
	PROG_SPLIT,
	PROG_FRONTMERGE,
	PROG_INSERT,
	PROG_REQUEUE,
	PROG_ISSUE,
	PROG_MERGE,
	PROG_COMPLETE,
	PROG_REMAP,
	PROG_RQ_REMAP,
	PROG_END,
};

struct address_line {
	volatile u64 word[16]; /* whole cache lines */
};

static struct address_line address_words[MAX_CPUS];

static __always_inline u64 address_of(const void *object, enum program program)
{
	u32 cpu = bpf_get_smp_processor_id() & (MAX_CPUS - 1);

	address_words[cpu].word[program] = (u64)object;
	return address_words[cpu].word[program];
}

/*
 * All device numbers that matter, at most one a slot: slot_of_dev() finds any of 64 disks and their parts in one step.
 * The recorder chose the multiplier so that no two numbers meet (collectors/block/dev_table.c).
 */
const volatile u32 dev_multiplier;
const volatile struct dev_entry dev_table[DEV_SLOTS];

/* The device's entry; NULL: it is of no concern. */
static __always_inline const volatile struct dev_entry *find_dev(u32 dev)
{
	const volatile struct dev_entry *entry = &dev_table[DEV_SLOT(dev, dev_multiplier)];

	return entry->dev == dev && entry->flags ? entry : NULL;
}

static __always_inline struct gendisk *disk_of_bio(struct bio *bio)
{
	if (bpf_core_field_exists(struct bio, bi_disk))
		return bio->bi_disk;
	return bio->bi_bdev->bd_disk;
}

/* Device number of the partition or whole disk the bio was sent to; 0: older kernels keep only the disk. */
static __always_inline u32 sent_to(struct bio *bio)
{
	if (bpf_core_field_exists(struct bio, bi_disk))
		return 0;
	return bio->bi_bdev->bd_dev;
}

/* Is the bio sent to a partition or disk that a recorded volume is made of? Its entry; NULL: no. */
static __always_inline const volatile struct dev_entry *component_of(struct bio *bio)
{
	const volatile struct dev_entry *entry;

	if (bpf_core_field_exists(struct bio, bi_disk))
		entry = find_dev(bio->bi_disk->major << 20 | bio->bi_disk->first_minor);
	else
		entry = find_dev(bio->bi_bdev->bd_dev);
	return entry && entry->flags & DEV_COMPONENT ? entry : NULL;
}

static __always_inline struct gendisk *disk_of(struct request *rq)
{
	if (bpf_core_field_exists(struct request_queue, disk))
		return rq->q->disk;
	return rq->rq_disk;
}

/* The number given to a disk that has none; 0: the disk is not recorded. */
static __noinline u32 hidden_number(struct gendisk *disk)
{
	u64 name[4] = { 0 };

	BPF_CORE_READ_INTO(&name, disk, disk_name);
	for (u32 i = 0; i < HIDDEN_MAX && i < hidden_count; i++) {
		const volatile struct hidden_disk *hidden = &hidden_disks[i];

		if (hidden->name[0] == name[0] && hidden->name[1] == name[1] &&
		    hidden->name[2] == name[2] && hidden->name[3] == name[3])
			return hidden->dev;
	}
	return 0;
}

/* The entry of a recorded disk or volume; NULL: it is not recorded. */
static __always_inline const volatile struct dev_entry *recorded_disk(struct gendisk *disk)
{
	const volatile struct dev_entry *entry = find_dev(disk->major << 20 | disk->first_minor);

	if (!entry && hidden_count)
		entry = find_dev(hidden_number(disk));
	return entry && entry->flags & (DEV_LEAF | DEV_VOLUME) ? entry : NULL;
}

/* Index of a disk whose requests are recorded; -1: they are not. */
static __always_inline int disk_index(struct gendisk *disk)
{
	const volatile struct dev_entry *entry = recorded_disk(disk);

	return entry && entry->flags & DEV_LEAF ? entry->index : -1;
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

#endif
