/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The request below a loop device's: when the host's disk had it.
 *
 * A worker of the loop device reads or writes the disk's file for each request. With direct I/O the end of a request to the
 * disk below leads to the loop device's in three steps: its bio's private data are the file's direct I/O, whose kiocb is in
 * the loop device's part of its request, behind struct request. What these steps lead to counts only if it is the address
 * of a recorded request in flight. A loop device without direct I/O, and a host's file system without iomap, do not show it.
 */
#ifndef SEEKMETER_BLOCK_BELOW_H
#define SEEKMETER_BLOCK_BELOW_H

#include "block_why.h"

#define NS_PER_US 1000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* linux/fs.h */
struct kiocb {
	s64 ki_pos;
};

/* fs/iomap/direct-io.c */
struct iomap_dio {
	struct kiocb *iocb;
};

/* drivers/block/loop.c */
struct loop_cmd {
	struct kiocb iocb;
};

#pragma clang attribute pop

/* The address of the loop device's request that this bio's end leads to; 0: none. */
static __always_inline u64 request_above(struct bio *bio)
{
	u64 end = (u64)BPF_CORE_READ(bio, bi_end_io), private = (u64)BPF_CORE_READ(bio, bi_private);
	u64 iocb;

	/* The front of a bio that was cut in two: its end is its parent's. */
	if (end == end_functions.chain) {
		bio = (void *)private;
		end = (u64)BPF_CORE_READ(bio, bi_end_io);
		private = (u64)BPF_CORE_READ(bio, bi_private);
	}
	if (!end || end != end_functions.direct)
		return 0;
	iocb = (u64)BPF_CORE_READ((struct iomap_dio *)private, iocb);
	return iocb - bpf_core_field_offset(struct loop_cmd, iocb) -
	       bpf_core_type_size(struct request);
}

static __always_inline u32 us_since(u64 begin_ns, u64 ns)
{
	u64 us = ns > begin_ns ? (ns - begin_ns) / NS_PER_US : 0;

	return us < (u32)-1 ? us : (u32)-1;
}

/* A request of a disk that is not recorded completes. Of its own: few disks below are a loop device's. */
static __separate int note_below(struct request *below)
{
	const volatile struct dev_entry *dev;
	struct block_inflight *slot;
	u64 address, start_ns, now;
	struct gendisk *disk;
	u32 index, start, tag;
	struct request *rq;

	if (!bpf_core_field_exists(struct loop_cmd, iocb) ||
	    !bpf_core_field_exists(struct iomap_dio, iocb) || !end_functions.direct)
		return 0;
	start_ns = below->start_time_ns;
	if (!below->bio || !start_ns) /* a flush; or the disk keeps no statistics */
		return 0;
	address = request_above(below->bio);
	rq = (void *)address;
	if (!address)
		return 0;
	if (bpf_core_field_exists(struct request_queue, disk))
		disk = BPF_CORE_READ(rq, q, disk);
	else
		disk = BPF_CORE_READ(rq, rq_disk);
	dev = find_dev(BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor));
	if (!dev || !(dev->flags & DEV_LEAF))
		return 0;
	index = dev->index & (MAX_DEVS - 1);
	tag = BPF_CORE_READ(rq, tag);
	if (tag >= dev_tags[index])
		return 0;
	/* A loop device has one hardware queue. */
	index = dev_base[index] + tag;
	slot = bpf_map_lookup_elem(&inflight, &index);
	if (!slot || slot->request != address)
		return 0;
	now = bpf_ktime_get_ns();
	/* A large request is several below. */
	start = us_since(slot->record.issue_ns, start_ns);
	if (!slot->record.below_end_us || start < slot->record.below_start_us)
		slot->record.below_start_us = start;
	slot->record.below_end_us = us_since(slot->record.issue_ns, now);
	return 0;
}

#endif
