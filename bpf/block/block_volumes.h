/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Bios to volumes (devices above disks with requests: dm, md, bcache, zram, NVMe heads), from Q to their end.
 *
 * An entry is the row-to-be. At the top volume it gets submitter and class from the current task and the first page, as a
 * request does on a bare disk. A bio to a volume further down gets both from its origin, and so does a request of a disk.
 * The entry stays until the bio ends, so that all that is sent down for it finds it: a full set refuses a bio, and
 * counts it, rather than drop one that is in flight.
 *
 * The end is block_bio_complete. Where the bio itself becomes (part of) a request that tracepoint never comes
 * (BIO_TRACE_COMPLETION is cleared by blk_update_request()): the bio ends with the last of its parts' requests.
 */
#ifndef SEEKMETER_BLOCK_VOLUMES_H
#define SEEKMETER_BLOCK_VOLUMES_H

#include "block_bios.h"
#include "block_charged.h"
#include "block_class.h"
#include "block_origins.h"
#include "block_ranges.h"
#include "block_rings.h"

#define REUSED (1U << 31) /* with a slot: its last bio, of the same address, was not seen to end */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* resized to VOLUME_SETS if there are volumes */
	__type(key, u32);
	__type(value, struct volume_set);
} volume_bios SEC(".maps");

/* Sets that took a bio since the recorder cleared this: it looks for old bios in few of the table's 28 MB. */
u8 volume_taken[VOLUME_SETS];

static __always_inline struct volume_set *volume_set_of(u32 slot)
{
	u32 set = slot / VOLUME_WAYS;

	return bpf_map_lookup_elem(&volume_bios, &set);
}

static __always_inline u32 first_slot_of(u64 bio)
{
	return hash_to(bio, VOLUME_SET_BITS) * VOLUME_WAYS;
}

static __always_inline u32 find_volume_bio(u64 bio)
{
	u32 first = first_slot_of(bio);
	struct volume_set *set = volume_set_of(first);

	if (!set)
		return NO_SLOT;
#pragma unroll
	for (u32 i = 0; i < VOLUME_WAYS; i++)
		if (set->bio[i] == bio)
			return first + i;
	return NO_SLOT;
}

/* A slot for the bio; NO_SLOT: its set is full. */
__noinline u32 claim_volume_bio(u64 bio)
{
	u32 first = first_slot_of(bio), slot = find_volume_bio(bio);
	struct volume_set *set = volume_set_of(first);

	if (!set)
		return NO_SLOT;
	if (slot != NO_SLOT)
		return slot | REUSED;
	for (u32 i = 0; i < VOLUME_WAYS; i++) {
		if (!set->bio[i] && replace(&set->bio[i], 0, bio, false)) {
			volume_taken[first / VOLUME_WAYS & (VOLUME_SETS - 1)] = 1;
			return first + i;
		}
	}
	return NO_SLOT;
}

/* The slot of the bio in flight that a key of a range names, if it covers the sector; else NO_SLOT. */
__noinline u32 slot_in_range(u64 key, u64 sector)
{
	struct range_set *ways = range_set_of(key);

	if (!ways)
		return NO_SLOT;
	for (int i = 0; i < RANGE_WAYS; i++) {
		struct range_entry *entry = &ways->way[i];
		struct volume_record *record;
		struct volume_set *set;
		u32 way = entry->slot & (VOLUME_WAYS - 1);

		if (entry->key != key)
			continue;
		set = volume_set_of(entry->slot);
		if (!set || !set->bio[way])
			return NO_SLOT;
		record = &set->way[way].record;
		if (record->bio_id != entry->bio_id)
			return NO_SLOT;
		if ((key >> 52 & 31) == LEVEL_FLUSH || (key >> 52 & 31) == LEVEL_PAGES ||
		    (sector >= record->sector && (sector - record->sector) * 512 < record->bytes))
			return entry->slot;
		return NO_SLOT;
	}
	return NO_SLOT;
}

/* The slot of the bio in flight on a volume that covers this sector; NO_SLOT: none. */
__noinline u32 find_volume_sector(u32 index, u32 is_write, u64 sector)
{
	u32 levels = range_levels[index & (MAX_DEVS - 1)], slot;

	slot = slot_in_range(range_key(index, is_write, LEVEL_START, sector), sector);
	if (slot != NO_SLOT)
		return slot;
	for (u32 level = LEVEL_FIRST; level <= LEVEL_LAST; level += LEVEL_STEP) {
		if (!(levels & 1U << level))
			continue;
		slot = slot_in_range(
			range_key(index, is_write, level, sector & ~((1ULL << level) - 1)), sector);
		if (slot != NO_SLOT)
			return slot;
	}
	return NO_SLOT;
}

/* The slot of the last bio with a flush on a volume; NO_SLOT: none is in flight. */
static __always_inline u32 find_volume_flush(u32 index)
{
	return slot_in_range(range_key(index, true, LEVEL_FLUSH, 0), 0);
}

/* The top volume's bio that an origin names; NULL: it is over, and its slot has another. */
static __always_inline struct volume_bio *top_of(struct origin *origin)
{
	struct volume_set *set = volume_set_of(origin->slot);
	struct volume_bio *top;

	if (!set || !origin->id)
		return NULL;
	top = &set->way[origin->slot & (VOLUME_WAYS - 1)];
	return top->record.bio_id == origin->id ? top : NULL;
}

/* Makes the bio in this slot the origin of a bio on its way down, whose place on the slot's volume is `sector`. */
static __always_inline void set_origin(struct origin *origin, u64 bio, struct volume_bio *above,
				       u64 sector)
{
	origin->id = above->record.origin;
	origin->own_class = above->record.class;
	origin->slot = above->top_slot;
	origin->top_sector = above->top_sector + (sector - above->record.sector);
	origin->part = NO_SLOT;
	origin->part_id = 0;
	origin->at_ns = bpf_ktime_get_ns();
	origin->bio = bio;
}

/*
 * The origin of a bio that is queued; NULL: none is known. Without a remap, a bio to a part of a volume may be
 *   a clone of the volume's bio, by its list of pages (bcache, LVM's raid),
 *   or a flush (md, bcache): it serves the flush that the one volume of this part is doing.
 */
static __always_inline struct origin *origin_at_queue(struct bio *bio, u64 address)
{
	u64 sector = bio->bi_iter.bi_sector, at;
	struct origin *origin = take_origin(address, sector);
	const volatile struct dev_entry *part;
	u32 bytes = bio->bi_iter.bi_size, slot = NO_SLOT;
	struct volume_record *above;
	struct volume_set *set;

	if (origin)
		return origin;
	part = component_of(bio);
	if (!part)
		return NULL;
	if (have_sharing && bytes && bio->bi_io_vec)
		slot = slot_in_range(
			pages_key(address_of(bio->bi_io_vec, PROG_QUEUE), bio->bi_opf & 1), 0);
	else if (!bytes && bio->bi_opf & FLAG_BIT(__REQ_PREFLUSH) && part->parent != NO_DEV)
		slot = find_volume_flush(part->parent & (MAX_DEVS - 1));
	set = slot == NO_SLOT ? NULL : volume_set_of(slot);
	if (!set)
		return NULL;
	origin = claim_origin(address);
	if (!origin)
		return NULL;
	above = &set->way[slot & (VOLUME_WAYS - 1)].record;
	/* A mirror's place is the volume's. Another layer's is not known: the bio's first sector then. */
	at = bytes && sector >= above->sector &&
			     (sector - above->sector) * 512 + bytes <= above->bytes
		     ? sector
		     : above->sector;
	set_origin(origin, address, &set->way[slot & (VOLUME_WAYS - 1)], at);
	origin->sector = sector;
	origin->waits = 0;
	return origin;
}

static __always_inline void fill_task(struct volume_record *record, struct bio *bio, u64 address)
{
	u64 id = bpf_get_current_pid_tgid();
	struct block_why why;

	record->pid = (u32)id;
	record->tgid = id >> 32;
	record->cgroup = cgroup_now();
	record->submitter = submitter_now();
	record->in_workload = is_in_workload(record->submitter);
	get_comm(record->comm);
	fill_why(&why, bio, address, PROG_QUEUE);
	__builtin_memcpy(record, &why, sizeof(why));
}

/* The bio of a slot is not in flight any more, and nobody saw it end. Called by bio_queue() only. */
static __always_inline void write_unseen(struct volume_record *record, u64 now)
{
	if (!recording)
		return;
	COUNT(volume_unseen);
	record->complete_ns = 0;
	record->end_by_ns = now;
	write_volume(record, VOLUME_RING_QUEUE);
}

/* A bio is queued to a volume. */
static __always_inline void queue_on_volume(struct bio *bio, struct gendisk *disk, u32 index)
{
	u64 address = address_of(bio, PROG_QUEUE), now = bpf_ktime_get_ns(), key, id;
	u32 slot = claim_volume_bio(address), opf = bio->bi_opf;
	struct volume_bio *volume_bio, *top = NULL;
	struct block_counts *counts = my_counts();
	struct volume_record *record;
	struct page_owner owner = {};
	struct volume_set *set;
	struct origin *origin;
	u64 sector = bio->bi_iter.bi_sector;
	u32 bytes = bio->bi_iter.bi_size;

	if (!counts)
		return;
	set = volume_set_of(slot & ~REUSED);
	if (slot == NO_SLOT || !set) {
		counts->volume_full++;
		return;
	}
	volume_bio = &set->way[slot & (VOLUME_WAYS - 1)];
	record = &volume_bio->record;
	if (slot & REUSED) {
		write_unseen(record, now);
		slot &= ~REUSED;
	}
	id = ++counts->volume_queued << 13 | bpf_get_smp_processor_id();
	origin = origin_at_queue(bio, address);
	if (origin)
		top = top_of(origin);
	if (top) {
		__builtin_memcpy(record, &top->record, sizeof(*record));
		volume_bio->top_slot = origin->slot;
		volume_bio->top_sector = origin->top_sector;
	} else {
		record->ino = 0;
		record->charged = BLOCK_CHARGED_UNKNOWN;
		record->cgroup_from = BLOCK_CGROUP_FROM_TASK;
		record->sb_dev = sent_to(bio);
		record->origin = id;
		volume_bio->top_slot = slot;
		volume_bio->top_sector = sector;
		fill_task(record, bio, address);
	}
	record->bio_id = id;
	record->queue_ns = now;
	record->complete_ns = 0;
	record->end_by_ns = 0;
	record->sector = sector;
	record->bytes = bytes;
	record->dev = dev_number[index];
	record->error = 0;
	record->op = op_of(opf);
	record->flags = flags_of(opf);
	volume_bio->parts = 1;
	volume_bio->is_over = 0;
	if (!top) {
		bool has_pages = bytes &&
				 (record->op == BLOCK_OP_READ || record->op == BLOCK_OP_WRITE);

		classify_bottom(&owner, record->flags, bio, disk, has_pages, PROG_QUEUE);
		record->class = origin && !origin->id ? origin->own_class : owner.class;
		/* A layer's own serves no bio further up. */
		if (record->class == BLOCK_CLASS_VOLUME || record->class == BLOCK_CLASS_PARITY)
			record->origin = 0;
		if (owner.ino) {
			record->ino = owner.ino;
			record->sb_dev = owner.sb_dev;
		}
		if (is_kernels(record->submitter))
			note_owner(bio, IS_WRITEBACK(record), PROG_QUEUE, &record->cgroup,
				   &record->cgroup_from, &record->charged);
	}
	if (!bytes && opf & FLAG_BIT(__REQ_PREFLUSH))
		record->op = BLOCK_OP_FLUSH;
	if (!dev_has_parts[index])
		return;
	key = range_key(index, opf & 1, 0, 0); /* the operations that write have odd numbers */
	if (bytes)
		put_range(key | (u64)LEVEL_START << 52 | sector, slot, id);
	if (opf & FLAG_BIT(__REQ_PREFLUSH))
		put_range(range_key(index, true, LEVEL_FLUSH, 0), slot, id);
	if (have_sharing && bytes && dev_shares_pages[index])
		put_range(pages_key(address_of(bio->bi_io_vec, PROG_QUEUE), opf & 1), slot, id);
	if (bytes > 4096 && put_blocks(key, sector, sector + bytes / 512, slot, id))
		COUNT(ranges_cut);
}

/*
 * A disk, or a volume with requests, cuts a bio: the new front serves what the whole did. Where the whole ends with its
 * requests, the front is one more part of it.
 */
static __always_inline void split_origin(u64 parent, u64 front, bool is_volume)
{
	struct origin *from = find_origin(parent), *to;
	u32 slot = is_volume ? find_volume_bio(parent) : from ? from->part : NO_SLOT;
	struct volume_set *set = slot == NO_SLOT ? NULL : volume_set_of(slot);
	struct volume_bio *volume_bio;

	if (!from) {
		barrier(); /* clang 19 tests both at once, by an OR of pointers, which the verifier refuses */
		if (!set)
			return;
	}
	to = claim_origin(front);
	if (!to)
		return;
	if (from && from != to)
		__builtin_memcpy(to, from, sizeof(*to));
	to->bio = front;
	to->at_ns = bpf_ktime_get_ns();
	if (!set)
		return;
	volume_bio = &set->way[slot & (VOLUME_WAYS - 1)];
	to->part = slot;
	to->part_id = volume_bio->record.bio_id;
	__sync_fetch_and_add(&volume_bio->parts, 1);
}

/*
 * Bytes of a bio of parity; 0: it is none. A function of its own, so that the verifier checks it once and not in each round of
 * the loops below (6.1 gave up on those).
 */
__noinline u32 parity_of(u64 bio)
{
	struct origin *origin = find_origin(bio);

	if (!origin || origin->id || origin->own_class != BLOCK_CLASS_PARITY)
		return 0;
	return BPF_CORE_READ((struct bio *)bio, bi_iter.bi_size);
}

/* Bytes of parity among a request's bios. */
__noinline u32 parity_among(u64 bio)
{
	u32 bytes = 0;

	for (int i = 0; i < MAX_BIOS_COUNTED && bio; i++) {
		bytes += parity_of(bio);
		bio = (u64)BPF_CORE_READ((struct bio *)bio, bi_next);
	}
	return bytes;
}

/* A request's first bio that is no parity; 0: all are. */
__noinline u64 first_without_parity(u64 bio)
{
	for (int i = 0; i < MAX_BIOS_COUNTED && bio; i++) {
		if (!parity_of(bio))
			return bio;
		bio = (u64)BPF_CORE_READ((struct bio *)bio, bi_next);
	}
	return 0;
}

/* A request's facts that are its origin's. `further`: sectors from the origin's place to the request's first. */
static __always_inline void copy_origin(struct block_record *record, struct volume_bio *top,
					struct origin *origin, u64 further)
{
	record->origin = top->record.bio_id;
	record->origin_ns = top->record.queue_ns;
	record->origin_sector = origin->top_sector + further;
	record->origin_dev = top->record.dev;
	record->cgroup = top->record.cgroup;
	record->ino = top->record.ino;
	record->sb_dev = top->record.sb_dev;
	record->pid = top->record.pid;
	record->tgid = top->record.tgid;
	/* A flush has no pages, whatever the bio that waits for it has. */
	if (record->op != BLOCK_OP_FLUSH)
		record->class = top->record.class;
	record->in_workload = top->record.in_workload;
	record->submitter = top->record.submitter;
	record->charged = top->record.charged;
	record->cgroup_from = top->record.cgroup_from;
	__builtin_memcpy(record->comm, top->record.comm, sizeof(record->comm));
	__builtin_memcpy(record, &top->record, sizeof(struct block_why));
}

/* The bio of this slot has ended; its row is written. */
static __always_inline void end_volume_bio(u32 slot, int error, enum volume_ring_writer writer)
{
	struct volume_set *set = volume_set_of(slot);
	u32 way = slot & (VOLUME_WAYS - 1);
	struct volume_record *record;
	u64 bio;

	if (!set)
		return;
	record = &set->way[way].record;
	bio = set->bio[way];
	if (!bio)
		return;
	if (recording) {
		record->complete_ns = bpf_ktime_get_ns();
		if (error)
			record->error = error;
		COUNT(volume_ended);
		write_volume(record, writer);
	}
	/* Last: from here on another bio may take the slot. */
	*(volatile u64 *)&set->bio[way] = 0;
}

/*
 * A request, or `left` bytes of it from its start, has completed: if its first bio is a volume's, or a part of one, and
 * ends with these, takes that part off. Returns the bytes of the bio; above 32 bits: the bio has not ended.
 */
__noinline u64 end_part(u64 bio, u32 rq_flags, u32 left, int error)
{
	u32 bytes = BPF_CORE_READ((struct bio *)bio, bi_iter.bi_size), slot, way;
	u32 opf = BPF_CORE_READ((struct bio *)bio, bi_opf);
	struct origin *origin = find_origin(bio);
	struct volume_bio *volume_bio;
	struct volume_set *set;

	if (bytes > left)
		return 1ULL << 32;
	/* Data with a flush around it: the request ends once more, without bytes, when the flush has (blk_flush_complete_seq()). */
	if (bytes && opf & ~rq_flags & (FLAG_BIT(__REQ_PREFLUSH) | FLAG_BIT(__REQ_FUA)))
		return bytes;
	slot = origin && origin->part != NO_SLOT ? origin->part : find_volume_bio(bio);
	if (slot == NO_SLOT)
		return bytes;
	set = volume_set_of(slot);
	if (!set)
		return bytes;
	way = slot & (VOLUME_WAYS - 1);
	volume_bio = &set->way[way];
	if (origin && origin->part != NO_SLOT) {
		if (volume_bio->record.bio_id != origin->part_id)
			return bytes;
		origin->bio = 0;
	}
	if (error)
		volume_bio->record.error = error;
	__sync_fetch_and_add(&volume_bio->parts, -1);
	/* Of two CPUs that take off the last parts at once, one at most ends the bio. */
	if (*(volatile s32 *)&volume_bio->parts <= 0 && replace(&volume_bio->is_over, 0, 1, false))
		end_volume_bio(slot, error, VOLUME_RING_REQUEST);
	return bytes;
}

/* `bytes` of a request have completed: ends those of its bios that are parts of a volume's. */
static __always_inline void end_parts(struct request *rq, u32 bytes, int error)
{
	u64 bio = address_of(rq->bio, PROG_COMPLETE), size;
	u32 rq_flags = rq->cmd_flags;

	for (int i = 0; i < MAX_BIOS_COUNTED && bio; i++) {
		/* Read first: a bio that has ended is free. */
		u64 next = (u64)BPF_CORE_READ((struct bio *)bio, bi_next);

		size = end_part(bio, rq_flags, bytes, error);
		if (size >> 32)
			return;
		bytes -= size;
		bio = next;
	}
}

#endif
