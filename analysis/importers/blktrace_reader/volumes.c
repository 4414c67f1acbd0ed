// SPDX-License-Identifier: BSD-2-Clause
#include "volumes.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "rows.h"

#define REMAP_BYTES 16 /* struct blk_io_trace_remap: device from, device to, sector from */

static uint64_t end_of(const struct bio *bio)
{
	return sector_after(bio->sector, bio->bytes);
}

struct served volumes_served(struct requests *requests, const struct origin *origin)
{
	const struct device *zero_of =
		origin->zero ? devices_known(&requests->devices, origin->zero_of) : NULL;
	const struct device *top;

	if (zero_of && zero_of->has_parity)
		return (struct served){ .is_parity = origin->zero != ZERO_OPEN };
	/* What a volume between does on its own serves no bio of the top. */
	top = origin->id ? devices_known(&requests->devices, origin->device) : NULL;
	return (struct served){ .origin = top && !top->is_below ? origin : NULL };
}

static void write_row(struct requests *requests, const struct bio *bio, uint64_t complete_ns,
		      uint16_t error)
{
	struct device *device = devices_known(&requests->devices, bio->device);
	struct served served;

	if (!complete_ns)
		requests->counts.bio_end_unseen++;
	if (!device)
		return;
	device->bio_rows++;
	served = volumes_served(requests, &bio->origin);
	rows_write_bio(requests->output, bio, served.origin, served.is_parity, complete_ns, error);
}

static struct bio *add(struct requests *requests, const struct bio *bio)
{
	struct bio forgotten, *added = bios_add(&requests->bios, bio, &forgotten);
	struct device *device;

	if (!added)
		requests->error = ENOMEM;
	if (forgotten.state != BIO_OPEN)
		return added;
	device = devices_known(&requests->devices, forgotten.device);
	if (device && device_is_volume(device))
		write_row(requests, &forgotten, 0, 0);
	return added;
}

static void end_bio(struct requests *requests, struct bio *bio, uint64_t complete_ns,
		    uint16_t error)
{
	write_row(requests, bio, complete_ns, error);
	bios_remove(&requests->bios, bio);
}

void volumes_carry(struct requests *requests, const struct event *event, struct piece *bio)
{
	struct bio *sent = bios_at(&requests->bios, event->device, event->sector, bio->kind,
				   BIO_SENT, event->pid, event->bytes);

	if (!sent || (!event->bytes && sent->bytes))
		return;
	bio->origin = sent->origin;
	if (sent->origin.id)
		memcpy(bio->comm, sent->comm, COMM_BYTES);
	bios_remove(&requests->bios, sent);
}

/* Some kernels queue the rest of a split bio once more. */
static bool is_known_rest(struct requests *requests, const struct device *device,
			  const struct event *event, uint32_t kind)
{
	struct bio *bio;

	if (!device->splits_bios || !event->bytes)
		return false;
	bio = bios_ending(&requests->bios, event->device, sector_after(event->sector, event->bytes),
			  kind, event->sector);
	return bio && bio->split_at == event->sector;
}

void volumes_queue(struct requests *requests, struct device *device, const struct event *event,
		   const struct piece *queued)
{
	struct bio bio = {
		.id = requests->bio_id + 1,
		.sector = event->sector,
		.queue_ns = event->time,
		.origin = queued->origin,
		.device = event->device,
		.bytes = event->bytes,
		.left = event->bytes,
		.kind = queued->kind,
		.flags = event->action,
		.thread = event->pid,
		.state = BIO_OPEN,
	};

	if (is_known_rest(requests, device, event, queued->kind))
		return;
	requests->bio_id++;
	if (!bio.origin.id) {
		bio.origin.id = bio.id;
		bio.origin.queue_ns = bio.queue_ns;
		bio.origin.sector = bio.sector;
		bio.origin.device = bio.device;
		bio.origin.pid = bio.thread;
	}
	memcpy(bio.comm, queued->comm, COMM_BYTES);
	if (event->action & CATEGORY_FLUSH)
		device->flushes[device->flush_count++ % LAST_FLUSHES] = (struct flush_bio){
			.id = bio.id, .sector = bio.sector, .thread = bio.thread
		};
	add(requests, &bio);
}

/* The bio whose flush is sent on: a flush has no place, so the last one that asked for it, if possible this thread's. */
static struct bio *flush_bio(struct requests *requests, const struct device *from,
			     const struct event *event)
{
	struct bio *newest = NULL;

	for (uint32_t back = 1; back <= LAST_FLUSHES && back <= from->flush_count; back++) {
		const struct flush_bio *flush =
			&from->flushes[(from->flush_count - back) % LAST_FLUSHES];
		struct bio *bio =
			bios_by_id(&requests->bios, from->number, flush->sector, flush->id);

		if (bio && flush->thread == event->pid)
			return bio;
		if (bio && !newest)
			newest = bio;
	}
	return newest;
}

/* A bio that was sent to this device's partition is now sent to the device itself. */
static void move_sent(struct requests *requests, const struct event *event, uint32_t kind,
		      uint32_t from, uint64_t from_sector)
{
	struct bio *sent = bios_at(&requests->bios, event->device, from_sector, kind, BIO_SENT,
				   event->pid, event->bytes);
	struct bio moved;
	struct remap *remap;

	if (!sent || sent->thread != event->pid)
		return;
	moved = *sent;
	bios_remove(&requests->bios, sent);
	moved.sector = event->sector;
	add(requests, &moved);
	remap = devices_find_remap(&requests->devices, moved.parent_device, event->device);
	if (remap)
		remap->through = from;
}

/* A write is said to serve sector 0 of a volume: that is no news if it goes to another disk, or to the same place. */
static void note_zero(struct device *from, const struct event *event)
{
	struct zero_place *place = from->zero_writes;

	while (place < from->zero_writes + ZERO_PLACES && place->on && place->on != event->device)
		place++;
	if (place == from->zero_writes + ZERO_PLACES)
		return;
	if (!place->on)
		*place = (struct zero_place){ event->device, event->sector };
	else if (place->at != event->sector)
		from->has_parity = true;
}

/*
 * The md driver says of all parity that it serves sector 0 of the array. If writes that say so go to several places of
 * one disk, then most of these are parity; where sector 0 itself lies, a read of it tells.
 */
static enum zero_state zero_state(struct device *from, const struct event *event,
				  const struct bio *parent)
{
	const struct zero_place *read = &from->zero_read;

	if (event->action & CATEGORY_READ) {
		/* Not a read of old parity, which the array's thread does. */
		if (parent && parent->thread == event->pid && !read->on)
			from->zero_read = (struct zero_place){ event->device, event->sector };
		return ZERO_NO;
	}
	if (!(event->action & CATEGORY_WRITE))
		return ZERO_NO;
	note_zero(from, event);
	if (!parent)
		return ZERO_ALONE;
	if (!read->on)
		return ZERO_OPEN;
	return read->on == event->device && read->at == event->sector ? ZERO_NO : ZERO_ELSEWHERE;
}

void volumes_remap(struct requests *requests, struct device *device, const struct event *event)
{
	bool is_flush = !event->bytes && event->action & CATEGORY_FLUSH;
	uint32_t kind = kind_of(event), from_number;
	struct bio sent = { .state = BIO_SENT }, *parent = NULL, *stale;
	struct device *from;
	uint64_t from_sector;
	enum zero_state zero = ZERO_NO;

	memcpy(&from_number, event->pdu, sizeof(from_number));
	memcpy(&from_sector, event->pdu + 8, sizeof(from_sector));
	from_number = be32toh(from_number);
	from_sector = be64toh(from_sector);
	if (event->pdu_len < REMAP_BYTES + (event->action & ACTION_CGROUP ? CGROUP_ID_BYTES : 0)) {
		requests->counts.remap_cut++;
		return;
	}
	if (event->bytes)
		devices_remap(&requests->devices, from_number, from_sector, event->device,
			      event->sector);
	from = devices_known(&requests->devices, from_number);
	if (!from || !from->queues || from == device) {
		/* A partition, which has no events of its own, or a volume that was not traced. */
		move_sent(requests, event, kind, from_number, from_sector);
		return;
	}
	from->remaps = true;
	device->is_below = true;
	if (is_flush)
		parent = flush_bio(requests, from, event);
	else
		parent = bios_covering(&requests->bios, from_number, from_sector, kind, event->pid);
	if (event->bytes && !from_sector)
		zero = zero_state(from, event, parent);
	if (zero == ZERO_ELSEWHERE && from->has_parity)
		parent = NULL;
	if (parent) {
		sent.origin = parent->origin;
		if (!is_flush)
			sent.origin.sector += from_sector - parent->sector;
		sent.parent_id = parent->id;
		sent.parent_sector = parent->sector;
		sent.queue_ns = from->takes_requests ? event->time : parent->queue_ns;
		memcpy(sent.comm, parent->comm, COMM_BYTES);
	} else if (!zero) {
		requests->counts.remap_unmatched++;
		return;
	}
	if (zero) {
		sent.origin.zero_of = from_number;
		sent.origin.zero = zero;
	}
	sent.parent_device = from_number;
	sent.device = event->device;
	sent.sector = event->sector;
	sent.bytes = event->bytes;
	sent.kind = kind;
	sent.flags = event->action;
	sent.thread = event->pid;
	/* One that this thread sent here before, and that nothing came of. */
	stale = bios_at(&requests->bios, event->device, event->sector, kind, BIO_SENT, event->pid,
			0);
	if (stale && stale->thread == event->pid)
		bios_remove(&requests->bios, stale);
	add(requests, &sent);
}

void volumes_split(struct requests *requests, struct device *device, const struct event *event,
		   uint64_t at)
{
	struct bio *bio = bios_covering(&requests->bios, event->device, event->sector,
					kind_of(event), event->pid);

	device->splits_bios = true;
	if (bio)
		bio->split_at = at;
}

bool volumes_complete(struct requests *requests, struct device *device, const struct event *event)
{
	uint64_t end = sector_after(event->sector, event->bytes);
	uint32_t kind = kind_of(event);
	struct bio *bio;

	if (event->bytes) {
		/* Of a split bio this event has the last part's length: only its end is sure. */
		bio = bios_ending(&requests->bios, event->device, end, kind, event->sector);
	} else {
		bio = bios_ending(&requests->bios, event->device, event->sector + 1, kind,
				  event->sector);
		if (!bio) /* a driver that counts the bytes left */
			bio = bios_ending(&requests->bios, event->device, end, kind & ~KIND_EMPTY,
					  event->sector);
	}
	if (bio) {
		device->ends_bios = true;
		end_bio(requests, bio, event->time, event->error);
		return true;
	}
	if (!event->bytes)
		return false;
	/* The first part of a bio may be a bio of its own. */
	bio = bios_covering(&requests->bios, event->device, event->sector, kind, event->pid);
	if (!bio || end >= end_of(bio))
		return false;
	requests->counts.bio_parts++;
	return true;
}

bool volumes_adopt(struct requests *requests, const struct event *event, struct piece *piece)
{
	struct bio *sent = bios_at(&requests->bios, event->device, event->sector, piece->kind,
				   BIO_SENT, event->pid, 0);
	struct device *from;

	if (!sent || sent->bytes > event->bytes || !sent->queue_ns)
		return false;
	from = devices_known(&requests->devices, sent->parent_device);
	piece->queue_ns = sent->queue_ns;
	piece->bytes = sent->bytes;
	piece->flags = sent->flags;
	piece->origin = sent->origin;
	if (sent->origin.id)
		memcpy(piece->comm, sent->comm, COMM_BYTES);
	piece->in_place = from && !from->takes_requests;
	if (piece->in_place)
		bios_make_part(&requests->bios, sent);
	else
		bios_remove(&requests->bios, sent);
	return true;
}

/* So many bytes of a volume's bio ended with a request below. */
static void end_part(struct requests *requests, const struct bio *part, uint64_t complete_ns,
		     uint16_t error)
{
	struct bio *bio = bios_by_id(&requests->bios, part->parent_device, part->parent_sector,
				     part->parent_id);

	if (!bio)
		return;
	bio->left -= part->bytes < bio->left ? part->bytes : bio->left;
	if (!bio->left)
		end_bio(requests, bio, complete_ns, error);
}

void volumes_end_parts(struct requests *requests, const struct piece *request, uint64_t complete_ns,
		       uint16_t error)
{
	uint64_t at = request->sector - request->done_bytes / SECTOR_BYTES;
	uint64_t end = sector_after(request->sector, request->bytes);
	struct bio *found, part;

	do {
		found = bios_at(&requests->bios, request->device, at, request->kind, BIO_PART,
				request->pid, 0);
		if (!found)
			break;
		part = *found;
		bios_remove(&requests->bios, found);
		end_part(requests, &part, complete_ns, error);
		at += part.bytes / SECTOR_BYTES;
	} while (at < end);
}

void volumes_end_request(struct requests *requests, const struct piece *request,
			 uint64_t complete_ns, uint16_t error)
{
	uint64_t start = request->sector - request->done_bytes / SECTOR_BYTES, at = start;
	uint64_t end = sector_after(request->sector, request->bytes);
	bool any = false;

	do {
		struct bio *bio = bios_covering(&requests->bios, request->device, at, request->kind,
						request->pid);

		if (!bio || bio->sector != at || end_of(bio) > end)
			break;
		at = end_of(bio);
		end_bio(requests, bio, complete_ns, error);
		any = true;
	} while (at < end);
	if (any || start == end) /* a flush's bio ends by itself */
		return;
	/* Its bios are older than the trace, or than what tells that the device is a volume. */
	struct bio whole = {
		.id = ++requests->bio_id,
		.sector = start,
		.queue_ns = request->queue_ns,
		.origin = request->origin,
		.device = request->device,
		.bytes = request->bytes + request->done_bytes,
		.flags = request->flags,
		.thread = request->pid,
	};

	if (!whole.origin.id)
		whole.origin = (struct origin){ .id = whole.id, .pid = whole.thread };
	memcpy(whole.comm, request->comm, COMM_BYTES);
	write_row(requests, &whole, complete_ns, error);
}
