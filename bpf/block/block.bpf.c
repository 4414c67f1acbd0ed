// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Requests to the disk: operation, submitter, class of data, and the times from queue to completion.
 *
 * One record per request. Three hot programs: a bio is queued (submitter, time), its request is issued (operation,
 * class), the request completes (latency). Their cost matters at hundreds of thousands of requests a second:
 *   - a request in flight lives in an array indexed by its tag, which blk-mq keeps unique per hardware
 *     queue: no hash map, no lock, no allocation;
 *   - a queued bio lives in a 4-way set-associative array indexed by its address (block_bios.h);
 *   - a finished record goes to a ring of this CPU in an mmap'ed array. Each ring has one writer, a program that the
 *     kernel never nests on a CPU, so no lock is needed.
 *
 * A request of several bios was queued when its oldest bio was, and inserted when the first of its parts was: after a
 * front merge, or a merge of two requests, the oldest bio is not the first one. Submitter, class and inode are those of
 * the bio with the first sector. The importer of block traces follows the same rules.
 *
 * Not recorded: the allocation of the request (G), merges of bios (M), and plugs. A fourth program per request, at
 * block_getrq, took 69 ns on top of the 334 of these three (fio, 4 KiB random reads, 40,000 to 50,000/s on 6.18, by
 * the kernel's count), a fifth more; merges would need a program run each, and all bios read at issue.
 * The request's start_time_ns is free but no allocation time: a plugged thread's is that of its first request (cached
 * since 6.9), often before the bio was queued. A block trace (COLLECT=blktrace) has all of these.
 */
#include "common/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "common/records.h"

#include "block_below.h"
#include "block_bios.h"
#include "block_charged.h"
#include "block_check.h"
#include "block_class.h"
#include "block_rings.h"
#include "block_state.h"
#include "block_volumes.h"
#include "block_waited.h"
#include "block_why.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A bio that is queued to a disk, or passed on to one by a volume, may cause flushes: it waits for these. */
static __always_inline void wait_for_flush(struct bio *bio, u64 address, u32 index,
					   struct origin *origin, bool have_cmpxchg,
					   enum program program)
{
	struct bio_entry *entry;
	struct origin *to;
	u32 flushes = 0;

	/* One flush before the data, one behind it if the disk has no FUA (blk_flush_policy()). */
	if (bio->bi_opf & FLAG_BIT(__REQ_PREFLUSH)) {
		flushes++;
		/* Counted here, as an end may be in an interrupt where the kernel runs no program. */
		if (!bio->bi_io_vec)
			COUNT(empty_flushes);
	}
	if (bio->bi_opf & FLAG_BIT(__REQ_FUA) && !dev_fua[index & (MAX_DEVS - 1)])
		flushes++;
	if (!flushes)
		return;
	entry = bpf_map_lookup_elem(&flush_waiters, &index);
	if (!entry || entry->bio || !replace(&entry->bio, 0, address, have_cmpxchg))
		return;
	fill_submitter(entry, bio, address, program, bpf_ktime_get_ns());
	entry->flushes = flushes;
	entry->sb_dev = sent_to(bio);
	if (!have_volumes)
		return;
	to = bpf_map_lookup_elem(&flush_origins, &index);
	if (to) {
		if (origin)
			__builtin_memcpy(to, origin, sizeof(*to));
		/* Without an origin: what `bio` says is that it went to a part of a volume. */
		else
			__builtin_memset(to, 0, sizeof(*to));
		to->bio = component_of(bio) ? address : 0;
	}
}

static __always_inline int queue(struct bio *bio, bool have_cmpxchg)
{
	struct gendisk *disk = disk_of_bio(bio);
	const volatile struct dev_entry *dev = recorded_disk(disk);
	struct origin *origin = NULL;
	struct bio_entry *entry;
	u64 address;
	u32 index;

	if (!dev || is_over)
		return 0;
	index = dev->index & (MAX_DEVS - 1);
	if (have_volumes && dev->flags & DEV_VOLUME) {
		queue_on_volume(bio, disk, index);
		return 0;
	}
	address = address_of(bio, PROG_QUEUE);
	if (have_volumes)
		origin = origin_at_queue(bio, address);
	entry = claim_bio(address, have_cmpxchg);
	if (entry && origin && origin->id)
		fill_times(entry, bpf_ktime_get_ns());
	else if (entry)
		fill_submitter(entry, bio, address, PROG_QUEUE, bpf_ktime_get_ns());
	wait_for_flush(bio, address, index, origin, have_cmpxchg, PROG_QUEUE);
	return 0;
}

/* The recorder loads one of bio_queue and bio_queue_by_add, and the same for bio_split: see replace(). */
SEC("tp_btf/block_bio_queue")
int bio_queue(u64 *ctx)
{
	return queue(ARGUMENT(ctx, queue_bio_at), true);
}

SEC("tp_btf/block_bio_queue")
int bio_queue_by_add(u64 *ctx)
{
	return queue(ARGUMENT(ctx, queue_bio_at), false);
}

/* A bio is cut in two: the new front half (bio) was queued when the old one was. */
static __always_inline int split(struct bio *bio, bool have_cmpxchg)
{
	const volatile struct dev_entry *dev = recorded_disk(disk_of_bio(bio));
	struct bio_entry *from, *to;
	u64 parent, front;

	if (!dev)
		return 0;
	/* bio_submit_split() chains the front to its parent first */
	parent = address_of(bio->bi_private, PROG_SPLIT);
	front = address_of(bio, PROG_SPLIT);
	if (have_volumes)
		split_origin(parent, front,
			     dev->flags & DEV_VOLUME &&
				     dev_has_requests[dev->index & (MAX_DEVS - 1)]);
	if (!(dev->flags & DEV_LEAF))
		return 0;
	from = find_bio(parent);
	if (!from)
		return 0;
	to = claim_bio(front, have_cmpxchg);
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
	to->cgroup = from->cgroup;
	to->submitter = from->submitter;
	__builtin_memcpy(to->comm, from->comm, sizeof(to->comm));
	__builtin_memcpy(&to->why, &from->why, sizeof(to->why));
	return 0;
}

SEC("tp_btf/block_split")
int bio_split(u64 *ctx)
{
	return split(ARGUMENT(ctx, split_bio_at), true);
}

SEC("tp_btf/block_split")
int bio_split_by_add(u64 *ctx)
{
	return split(ARGUMENT(ctx, split_bio_at), false);
}

/* This bio becomes the first of an older request. */
SEC("tp_btf/block_bio_frontmerge")
int bio_frontmerge(u64 *ctx)
{
	struct bio *bio = ARGUMENT(ctx, frontmerge_bio_at);
	struct bio_entry *entry = find_bio(address_of(bio, PROG_FRONTMERGE));

	if (entry)
		entry->front_merged = 1;
	return 0;
}

/*
 * The scheduler appends one waiting request to another (attempt_merge()): a new bio filled the gap between the two, or
 * one was inserted next to the other. The appended request may have been queued first.
 *
 * The tracepoint passes only the request that goes. The request that stays is the scheduler's last_merge by now (see
 * elv_merge_requests()) and ends with the same bio; all of this under the scheduler's lock (source of 6.1 and 6.12,
 * tried on these, 6.18 and 7.2). Discards of several ranges are joined without elv_merge_requests(): where another
 * request was merged last, these are counted as unknown.
 */
SEC("tp_btf/block_rq_merge")
int rq_merge(u64 *ctx)
{
	struct request *gone = ARGUMENT(ctx, merge_rq_at), *rq = NULL;
	struct bio_entry *entry;

	if (disk_index(disk_of(gone)) < 0 || is_over)
		return 0;
	if (bpf_core_field_exists(struct request_queue, last_merge))
		rq = gone->q->last_merge;
	if (!rq || rq == gone || rq->biotail != gone->biotail) {
		COUNT(merged_unknown);
		return 0;
	}
	entry = find_bio(address_of(rq->bio, PROG_MERGE));
	if (!entry) /* counted at issue; its start time is the earlier of both */
		return 0;
	if (!take_times(entry->bio, address_of(gone->bio, PROG_MERGE), gone->start_time_ns))
		COUNT(merged_unknown);
	return 0;
}

SEC("tp_btf/block_rq_insert")
int rq_insert(u64 *ctx)
{
	struct request *rq = ARGUMENT(ctx, insert_rq_at);
	struct bio_entry *entry;

	if (disk_index(disk_of(rq)) < 0)
		return 0;
	entry = find_bio(address_of(rq->bio, PROG_INSERT));
	if (!entry)
		return 0;
	settle_front_merge(entry, rq);
	entry->insert_ns = bpf_ktime_get_ns();
	return 0;
}

/*
 * With a scheduler the tag is already given back here, so the number of requeues and the completed bytes are kept with
 * the bio until the next issue. If the first bio completed, the next bio keeps them.
 */
SEC("tp_btf/block_rq_requeue")
int rq_requeue(u64 *ctx)
{
	struct request *rq = ARGUMENT(ctx, requeue_rq_at);
	int disk = disk_index(disk_of(rq));
	struct block_inflight *slot;
	struct bio_entry *entry;
	u32 index;

	if (disk < 0 || is_over)
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
		entry->done_bytes = slot->record.end_by_ns;
		slot->request = 0;
	}
	entry->requeues++;
	return 0;
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

SEC("tp_btf/block_rq_issue")
int rq_issue(u64 *ctx)
{
	struct request *rq = ARGUMENT(ctx, issue_rq_at);
	struct gendisk *gendisk = disk_of(rq);
	int disk = disk_index(gendisk);
	struct block_inflight *slot;
	struct block_record *record;
	struct bio_entry *entry = NULL;
	struct page_owner owner = {};
	struct origin *origin = NULL;
	struct volume_bio *top = NULL;
	struct block_why why;
	u32 cmd_flags, index = disk;
	struct bio *bio;
	u64 id, now, serving = 0;
	u16 merges;

	if (disk < 0 || is_over)
		return 0;
	slot = slot_of(rq, disk);
	if (!slot) {
		COUNT(no_slot);
		return 0;
	}
	record = &slot->record;
	bio = rq->bio;
	/* Before all that branches: the verifier walks the loop once for each state it is reached in. */
	merges = bio ? count_merges(bio) : 0;
	cmd_flags = rq->cmd_flags;
	now = bpf_ktime_get_ns();

	if (slot->request && recording) {
		/*
		 * The last request with this tag has completed, or the tag would not be free, but the kernel did not
		 * run rq_complete(). Seen on 6.18 under heavy interrupt load, a few in 100,000 in batches, and not in
		 * recursion_misses. Of that request's end only an upper bound is known: now.
		 */
		COUNT(complete_unseen);
		record->complete_ns = 0;
		record->end_by_ns = now;
		record->error = 0;
		write_record(record, RING_ISSUE);
	}
	slot->request = 0; /* the slot is complete only at the end of this program */
	if (have_volumes)
		slot->has_parts = 0;
	record->end_by_ns = 0; /* bytes completed */
	record->sector = rq->__sector;
	record->bytes = rq->__data_len;
	record->dev = dev_number[index & (MAX_DEVS - 1)];
	record->op = op_of(cmd_flags);
	record->flags = flags_of(cmd_flags);
	record->ino = 0;
	if (have_volumes) {
		record->origin = 0;
		record->origin_ns = 0;
		record->origin_sector = 0;
		record->origin_dev = 0;
		record->parity_bytes = 0;
	}
	record->sb_dev = 0;
	record->charged = BLOCK_CHARGED_UNKNOWN;
	record->merges = merges;
	record->class = BLOCK_CLASS_UNKNOWN;
	record->waited = BLOCK_WAITED_NO;
	record->cgroup_from = BLOCK_CGROUP_FROM_TASK;
	record->below_start_us = record->below_end_us = 0;
	record->issue_ns = now;
	if (bio) {
		entry = find_bio(address_of(bio, PROG_ISSUE));
		record->sb_dev = sent_to(bio);
		if (have_volumes) {
			serving = address_of(bio, PROG_ISSUE);
			if (have_parity && record->op == BLOCK_OP_WRITE) {
				record->parity_bytes = parity_among(serving);
				if (record->parity_bytes && first_without_parity(serving))
					serving = first_without_parity(serving);
			}
			origin = find_origin(serving);
			if (origin) {
				slot->has_parts = origin->part != NO_SLOT;
				top = top_of(origin);
				if (!top && origin->id)
					COUNT(origin_over);
			}
		}
		if (!top) {
			bool has_pages = record->op == BLOCK_OP_READ ||
					 record->op == BLOCK_OP_WRITE;

			classify_bottom(&owner, record->flags, bio, gendisk, has_pages, PROG_ISSUE);
			record->class = have_volumes && origin && !origin->id ? origin->own_class
									      : owner.class;
			if (owner.ino) {
				record->ino = owner.ino;
				record->sb_dev = owner.sb_dev;
			}
		}
		/* A flush sequence takes these two off the request, not off its bio (blk_insert_flush()). */
		record->flags |=
			flags_of(bio->bi_opf & (FLAG_BIT(__REQ_PREFLUSH) | FLAG_BIT(__REQ_FUA)));
	} else if (record->op == BLOCK_OP_FLUSH) {
		record->sector = 0;
		entry = bpf_map_lookup_elem(&flush_waiters, &index);
		if (entry && !entry->bio)
			entry = NULL;
		if (entry) {
			record->sb_dev = entry->sb_dev;
			if (have_volumes)
				origin = bpf_map_lookup_elem(&flush_origins, &index);
			if (origin) {
				top = top_of(origin);
				if (!top && origin->bio)
					record->class = BLOCK_CLASS_VOLUME;
			}
		}
	}
	if (entry) {
		if (bio) {
			entry->slot = slot_index(rq, disk);
			settle_front_merge(entry, rq);
			if (!sees_rq_merge && rq->start_time_ns &&
			    rq->start_time_ns < entry->queue_ns)
				entry->queue_ns = rq->start_time_ns;
			/* The record covers the whole request, even if the driver is issued the rest of it again. */
			record->end_by_ns = entry->done_bytes;
			record->bytes += entry->done_bytes;
			record->sector -= entry->done_bytes / 512;
		}
		copy_submitter(record, entry);
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
		record->cgroup = cgroup_now();
		record->submitter = submitter_now();
		record->in_workload = is_in_workload(record->submitter);
		record->queue_source = BLOCK_SOURCE_REQUEST;
		get_comm(record->comm);
		fill_why_late(&why, bio, bio ? address_of(bio, PROG_ISSUE) : 0, PROG_ISSUE);
		__builtin_memcpy(record, &why, sizeof(why));
	}
	if (top)
		copy_origin(record, top, origin,
			    serving ? BPF_CORE_READ((struct bio *)serving, bi_iter.bi_sector) -
					      origin->sector
				    : 0);
	/* The owner of writeback, whose submitter is a kernel thread. */
	if (!top && bio && is_kernels(record->submitter))
		note_owner(bio, IS_WRITEBACK(record), PROG_ISSUE, &record->cgroup,
			   &record->cgroup_from, &record->charged);
	slot->request = (u64)rq;
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(rq_complete, struct request *rq, int error, unsigned int bytes)
{
	const volatile struct dev_entry *dev = recorded_disk(disk_of(rq));
	struct block_inflight *slot;
	bool is_known;
	u64 position;
	int disk;

	if (is_over)
		return 0;
	if (!dev) {
		begin_foreign_completion(rq);
		if (have_loops)
			note_below(rq);
		return 0;
	}
	disk = dev->index;
	if (have_volumes && dev->flags & DEV_VOLUME) {
		/* dm-multipath: a request of its own. Its end in parts, the last of which has no bytes, does not matter. */
		if (bytes || !rq->__data_len)
			end_parts(rq, bytes, error);
		return 0;
	}
	slot = slot_of(rq, disk);
	if (have_volumes && slot && slot->has_parts && slot->request == (u64)rq)
		end_parts(rq, bytes, error);
	if (bytes < rq->__data_len) {
		COUNT(partial);
		if (slot && slot->request == (u64)rq) {
			slot->record.end_by_ns += bytes;
			begin_completion(rq, (u64)rq, slot->record.dev, slot->record.sector,
					 NO_POSITION);
		}
		return 0;
	}
	is_known = slot && slot->request == (u64)rq;
	if (is_known)
		slot->request = 0;
	if (!recording)
		return 0;
	if (is_known) {
		slot->record.complete_ns = bpf_ktime_get_ns();
		slot->record.end_by_ns = 0;
		/*
		 * A blk_status_t; -errno before Linux kernel commit 8a7d267b4a2c ("block: don't call
		 * blk_status_to_errno in blk_update_request") (in v5.16). The recorder makes it an errno.
		 */
		slot->record.error = error;
		COUNT(completed);
		position = write_record(&slot->record, RING_COMPLETE);
		begin_completion(rq, (u64)rq, slot->record.dev, slot->record.sector, position);
		return 0;
	}
	/*
	 * The request around a flush ends once more when the flush does (blk_flush_complete_seq()): one with data
	 * was recorded when that was written, one without was never issued itself. Who waits for it waits for the flush.
	 */
	if (!rq->bio || !(rq->bio->bi_opf & (FLAG_BIT(__REQ_PREFLUSH) | FLAG_BIT(__REQ_FUA)))) {
		completion_forget();
		/* In flight before the recording began, or issued without rq_issue() being run. */
		if (!attached_ns || rq->start_time_ns < attached_ns)
			COUNT(issued_before);
		else
			COUNT(issue_unseen);
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(task_waking, struct task_struct *task)
{
	struct block_completion *completion = completion_under_way();
	struct task_context *context;

	if (!completion || is_over)
		return 0;
	context = find_context(task);
	if (context && context->in_workload && ends_bios(completion))
		mark_waited(completion);
	return 0;
}

/* The ends of what a completion may run in. */
SEC("tp_btf/softirq_exit")
int softirq_exit(void *ctx)
{
	completion_forget();
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int irq_exit(void *ctx)
{
	struct block_completion *completion = completion_slot();

	/* A softirq that the interrupt has interrupted goes on. */
	if (completion && completion->dev && completion->context != CPU_CONTEXT_SOFTIRQ)
		completion->dev = 0;
	return 0;
}

SEC("tp_btf/sched_switch")
int task_switch(void *ctx)
{
	completion_forget();
	return 0;
}

static __always_inline void remap(struct bio *bio, const volatile struct dev_entry *old, u64 from)
{
	u64 address = address_of(bio, PROG_REMAP), to = bio->bi_iter.bi_sector, parent, above_bio;
	u32 bytes = bio->bi_iter.bi_size, is_write = bio->bi_opf & 1, slot = NO_SLOT;
	u32 index = old->index & (MAX_DEVS - 1);
	bool is_parity = false, is_part;
	const volatile struct dev_entry *dev;
	struct volume_bio *above;
	struct bio_entry *entry;
	struct volume_set *set;
	struct origin *origin;

	if (old->flags & DEV_VOLUME) {
		/* Of a stripe only the data has a place on the volume; the parity's is 0 (drivers/md/raid5.c, ops_run_io()). */
		is_parity = dev_has_parity[index] && is_write && !from &&
			    (to >= dev_data_offset[index] + 8 ||
			     (dev_first_member[index] && sent_to(bio) &&
			      sent_to(bio) != dev_first_member[index]));
		if (!bytes)
			slot = find_volume_flush(index);
		else if (!is_parity)
			slot = find_volume_sector(index, is_write, from);
		if (slot == NO_SLOT && dev_has_parity[index] && is_write && !from)
			is_parity = true;
	}
	set = slot == NO_SLOT ? NULL : volume_set_of(slot);
	if (!set && !is_parity) {
		origin = find_origin(address);
		/* A partition, or a volume that has not queued a bio passed on to it. */
		if (origin && origin->sector == from && (origin->waits || origin->part != NO_SLOT))
			origin->sector = to;
		else if (old->flags & DEV_VOLUME)
			COUNT(volume_own);
		return;
	}
	origin = claim_origin(address);
	if (!origin)
		return;
	if (!set) {
		origin->bio = address;
		origin->id = 0;
		origin->own_class = BLOCK_CLASS_PARITY;
		origin->part = NO_SLOT;
		origin->sector = to;
		origin->at_ns = bpf_ktime_get_ns();
		origin->waits = 1;
		return;
	}
	above = &set->way[slot & (VOLUME_WAYS - 1)];
	above_bio = set->bio[slot & (VOLUME_WAYS - 1)];
	parent = address_of(bio->bi_private, PROG_REMAP);
	is_part = above_bio == address || above_bio == parent;
	/* Once more, after an error of the path: it is a part already. */
	if (above_bio == parent && !(origin->bio == address && origin->part == slot &&
				     origin->part_id == above->record.bio_id))
		__sync_fetch_and_add(&above->parts, 1);
	set_origin(origin, address, above, bytes ? from : above->record.sector);
	origin->sector = to;
	origin->waits = !is_part;
	if (!is_part)
		return;
	origin->part = slot;
	origin->part_id = above->record.bio_id;
	dev = recorded_disk(disk_of_bio(bio));
	if (!dev || !(dev->flags & DEV_LEAF))
		return;
	entry = claim_bio(address, false);
	if (entry)
		fill_times(entry, origin->at_ns);
	wait_for_flush(bio, address, dev->index, origin, false, PROG_REMAP);
}

/*
 * A layer has given a bio its place below (A): the bio serves what is at the old place. Most layers clone the volume's
 * bio, and the clone is queued next; some pass the bio itself on, or a part cut off its front, chained to it
 * (bi_private): such a bio is not queued again. A partition's remap changes the place only.
 */
SEC("tp_btf/block_bio_remap")
int bio_remap(u64 *ctx)
{
	struct bio *bio = ARGUMENT(ctx, remap_bio_at);
	const volatile struct dev_entry *old = find_dev((u32)(u64)ARGUMENT(ctx, remap_bio_at + 1));
	u64 from = (u64)ARGUMENT(ctx, remap_bio_at + 2);

	if (old && !is_over)
		remap(bio, old, from);
	return 0;
}

/* The same for a request of dm-multipath (RA). The bios of its clone are not queued. */
SEC("tp_btf/block_rq_remap")
int rq_remap(u64 *ctx)
{
	struct request *rq = ARGUMENT(ctx, remap_rq_at);
	const volatile struct dev_entry *old = find_dev((u32)(u64)ARGUMENT(ctx, remap_rq_at + 1));
	u64 from = (u64)ARGUMENT(ctx, remap_rq_at + 2), address;
	struct volume_bio *above;
	struct bio_entry *entry;
	struct volume_set *set;
	struct origin *origin;
	u32 slot;

	if (!old || !(old->flags & DEV_VOLUME) || !rq->bio || is_over)
		return 0;
	address = address_of(rq->bio, PROG_RQ_REMAP);
	entry = claim_bio(address, false);
	if (entry)
		fill_submitter(entry, rq->bio, address, PROG_RQ_REMAP, bpf_ktime_get_ns());
	slot = find_volume_sector(old->index, rq->cmd_flags & 1, from);
	set = slot == NO_SLOT ? NULL : volume_set_of(slot);
	origin = claim_origin(address);
	if (!origin)
		return 0;
	origin->bio = 0;
	if (!set) {
		COUNT(volume_own);
		return 0;
	}
	above = &set->way[slot & (VOLUME_WAYS - 1)];
	set_origin(origin, address, above, from);
	origin->sector = rq->bio->bi_iter.bi_sector;
	origin->waits = 0;
	return 0;
}

/* The end of a bio to a volume (c). Bios that became requests end in rq_complete(). */
SEC("tp_btf/block_bio_complete")
int bio_complete(u64 *ctx)
{
	struct bio *bio = ARGUMENT(ctx, end_bio_at);
	u32 slot = find_volume_bio(address_of(bio, PROG_END));

	if (slot != NO_SLOT && !is_over)
		end_volume_bio(slot, bio->bi_status, VOLUME_RING_END);
	return 0;
}
