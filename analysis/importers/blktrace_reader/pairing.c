// SPDX-License-Identifier: BSD-2-Clause
/*
 * Pairs the events of a request: Q, M or F, G, I, D, C.
 *
 * A queued bio (Q) becomes a piece. An issued request (D) takes the pieces that it covers: the oldest has its submitter,
 * and their number is that of the merged bios, whether or not the merges (M, F) were traced. A completed request (C),
 * perhaps in parts, becomes a row. A requeued request (R) is a piece again; a split (X) makes two pieces of one.
 */
#include "pairing.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "plugs.h"
#include "rows.h"
#include "volumes.h"

#define SECOND_NS 1000000000ULL
/* A request in flight for so long at whose sectors another is issued has completed unseen: drivers time out sooner. */
#define STALE_NS  (60 * SECOND_NS)

/* A request ends. Of a volume its bios become rows instead. */
static void write_row(struct requests *requests, struct device *device, const struct piece *piece,
		      uint64_t complete_ns, uint16_t error)
{
	struct served served;

	if (piece->in_place)
		volumes_end_parts(requests, piece, complete_ns, error);
	if (device_is_volume(device)) {
		volumes_end_request(requests, piece, complete_ns, error);
		return;
	}
	served = volumes_served(requests, &piece->origin);
	rows_write(requests->output, piece, served.origin, served.is_parity, complete_ns, error);
	device->rows++;
	if (piece->merges && !rows_merges_known(piece))
		requests->counts.merges_unseen++;
}

/* A request whose end was not seen, and will not be. */
static void write_unended(struct requests *requests, const struct piece *piece)
{
	struct device *device = devices_find(&requests->devices, piece->device);

	if (!device)
		return;
	if (!device_is_volume(device))
		requests->counts.complete_unseen++;
	write_row(requests, device, piece, 0, 0);
}

static struct piece *find(struct requests *requests, const struct event *event, uint64_t sector,
			  enum piece_state state, uint32_t pid, uint32_t bytes)
{
	return pieces_find(&requests->pieces, event->device, sector, kind_of(event), state, pid,
			   bytes);
}

static struct piece *add(struct requests *requests, const struct piece *piece)
{
	struct piece forgotten, *added = pieces_add(&requests->pieces, piece, &forgotten);

	if (!added)
		requests->error = ENOMEM;
	if (forgotten.state == PIECE_IN_FLIGHT)
		write_unended(requests, &forgotten);
	else if (forgotten.state == PIECE_QUEUED && !forgotten.merged)
		requests->counts.forgotten++;
	return added;
}

/* A piece with the facts of an event. */
static struct piece piece_of(const struct requests *requests, const struct event *event)
{
	struct piece piece = {
		.sector = event->sector,
		.queue_ns = event->time,
		.device = event->device,
		.bytes = event->bytes,
		.pid = event->pid,
		.kind = kind_of(event),
		.flags = event->action,
		.state = PIECE_QUEUED,
	};

	names_get(&requests->names, event->pid, piece.comm);
	return piece;
}

/* The first bio since the last flush that asks for one: who the next flush belongs to. */
static void wait_for_flush(struct device *device, const struct piece *bio)
{
	struct flush_waiter *waiter = &device->waiter;

	if (waiter->before || waiter->after)
		return;
	waiter->before = bio->flags & CATEGORY_FLUSH;
	waiter->after = bio->flags & CATEGORY_FUA && !device->writes_through;
	waiter->queue_ns = bio->queue_ns;
	waiter->origin = bio->origin;
	waiter->pid = bio->pid;
	memcpy(waiter->comm, bio->comm, COMM_BYTES);
}

static void on_queue(struct requests *requests, struct device *device, const struct event *event)
{
	struct piece piece = piece_of(requests, event), *old;

	device->queues = true;
	volumes_carry(requests, event, &piece);
	if (event->action & (CATEGORY_FLUSH | CATEGORY_FUA))
		wait_for_flush(device, &piece);
	if (device_may_be_volume(device))
		volumes_queue(requests, device, event, &piece);
	if (device_is_bio_volume(device))
		return;
	/* Some kernels queue the rest of a split bio once more: it is as old as the bio. */
	old = find(requests, event, event->sector, PIECE_QUEUED, 0, 0);
	if (old && old->rest && old->bytes == event->bytes)
		return;
	if (old && old->merged)
		pieces_remove(&requests->pieces, old);
	add(requests, &piece);
}

/* The oldest bio queued here, or sent here by a volume, whose bio itself it is, without being queued once more. */
static struct piece *find_bio(struct requests *requests, struct device *device,
			      const struct event *event)
{
	struct piece *piece = find(requests, event, event->sector, PIECE_QUEUED, event->pid, 0);
	struct piece sent;

	if (piece || !requests->bios.sent)
		return piece;
	sent = piece_of(requests, event);
	if (!volumes_adopt(requests, event, &sent))
		return NULL;
	if (sent.flags & (CATEGORY_FLUSH | CATEGORY_FUA))
		wait_for_flush(device, &sent);
	return add(requests, &sent);
}

/* The request is allocated (G) or inserted (I); its bio is known unless the trace began, or lost it, in between. */
static void on_request(struct requests *requests, struct device *device, const struct event *event,
		       bool insert)
{
	struct piece *piece;

	device->takes_requests = true;
	if (!event->bytes)
		return; /* a flush */
	piece = find_bio(requests, device, event);
	if (!piece) {
		struct piece made = piece_of(requests, event);

		made.from_request = true;
		piece = add(requests, &made);
	}
	if (!piece)
		return;
	if (insert)
		piece->insert_ns = event->time;
	else if (!piece->from_request) /* else queued then too, as far as is known */
		piece->get_request_ns = event->time;
}

/* What of a queued piece lies behind so many bytes: as old as the whole. */
static struct piece rest_of(const struct piece *piece, uint32_t bytes)
{
	struct piece rest = *piece;

	rest.sector = sector_after(piece->sector, bytes);
	rest.bytes -= bytes;
	rest.rest = true;
	rest.parity_bytes = 0;
	rest.origin.sector += bytes / SECTOR_BYTES;
	rest.get_request_ns = 0;
	rest.insert_ns = 0;
	rest.merges = 0;
	rest.merges_seen = 0;
	rest.q2m_ns = 0;
	rest.merges_ns = 0;
	rest.done_bytes = 0;
	return rest;
}

static void on_split(struct requests *requests, struct device *device, const struct event *event)
{
	struct piece *piece = find(requests, event, event->sector, PIECE_QUEUED, event->pid, 0);
	struct piece rest;
	uint64_t at;

	memcpy(&at, event->pdu, sizeof(at));
	at = be64toh(at);
	if (device_may_be_volume(device))
		volumes_split(requests, device, event, at);
	if (device_is_bio_volume(device))
		return;
	if (splits_add(&requests->splits, event->device, event->sector, at))
		requests->error = ENOMEM;
	if (!piece || at <= piece->sector || at >= sector_after(piece->sector, piece->bytes))
		return;
	rest = rest_of(piece, (at - piece->sector) * SECTOR_BYTES);
	piece->bytes -= rest.bytes;
	add(requests, &rest);
}

/* A bio, or a request that begins with it, becomes part of a request. */
static void on_merge(struct requests *requests, struct device *device, const struct event *event)
{
	struct piece *piece = find_bio(requests, device, event);

	device->takes_requests = true;
	if (!piece)
		return;
	/* A discard can be of several places; only the first is then looked for. */
	if (event->action & CATEGORY_DISCARD) {
		piece->merged = true;
		return;
	}
	if (piece->from_request || event->time < piece->queue_ns)
		return;
	piece->q2m_ns += event->time - piece->queue_ns;
	piece->merges_ns += event->time;
	if (piece->merges_seen < UINT16_MAX)
		piece->merges_seen++;
}

/* The earlier of two times, of which 0 is none. */
static uint64_t earlier(uint64_t one, uint64_t other)
{
	return !one || (other && other < one) ? other : one;
}

/* Of parity and data in one request, the request is that of its first data. */
static void join_origin(struct requests *requests, struct piece *whole, const struct piece *piece)
{
	bool was_parity, is_parity;

	if (!whole->origin.zero && !piece->origin.zero)
		return;
	was_parity = volumes_served(requests, &whole->origin).is_parity;
	is_parity = volumes_served(requests, &piece->origin).is_parity;
	if (was_parity)
		whole->parity_bytes = whole->bytes;
	if (is_parity) {
		whole->parity_bytes += piece->bytes;
	} else if (was_parity) {
		whole->origin = piece->origin;
		whole->pid = piece->pid;
		memcpy(whole->comm, piece->comm, COMM_BYTES);
	}
}

/* One more piece of a request. Of two requests made one, the kernel too takes the earlier start. */
static void join(struct requests *requests, struct piece *whole, const struct piece *piece)
{
	uint32_t merges = whole->merges + 1 + piece->merges;
	uint32_t seen = whole->merges_seen + piece->merges_seen;

	if (piece->queue_ns < whole->queue_ns)
		whole->queue_ns = piece->queue_ns;
	whole->get_request_ns = earlier(whole->get_request_ns, piece->get_request_ns);
	whole->insert_ns = earlier(whole->insert_ns, piece->insert_ns);
	if (piece->requeues > whole->requeues)
		whole->requeues = piece->requeues;
	whole->merges = merges < UINT16_MAX ? merges : UINT16_MAX;
	whole->merges_seen = seen < UINT16_MAX ? seen : UINT16_MAX;
	whole->q2m_ns += piece->q2m_ns;
	whole->merges_ns += piece->merges_ns;
	join_origin(requests, whole, piece);
	whole->bytes += piece->bytes;
	whole->in_place |= piece->in_place;
}

/*
 * Takes the queued pieces that lie in the event's place out of the table, as one. Of a piece that reaches further
 * the rest stays. Returns false if there is none at its start.
 */
static bool take(struct requests *requests, const struct event *event, struct piece *whole)
{
	uint64_t at = event->sector;
	uint32_t left = event->bytes;
	bool any = false;

	do {
		struct piece *found = find(requests, event, at, PIECE_QUEUED, event->pid, 0);
		struct piece piece;

		if (!found)
			break;
		piece = *found;
		pieces_remove(&requests->pieces, found);
		if (piece.bytes > left) {
			struct piece rest = rest_of(&piece, left);

			piece.bytes = left;
			add(requests, &rest);
		}
		if (any)
			join(requests, whole, &piece);
		else
			*whole = piece;
		any = true;
		left -= piece.bytes;
		at = sector_after(at, piece.bytes);
	} while (left >= SECTOR_BYTES);
	return any;
}

/* The submitter of this flush. */
static void flush_submitter(struct requests *requests, struct device *device, struct piece *flush)
{
	struct flush_waiter *waiter = &device->waiter;

	if (!waiter->before && !waiter->after) {
		flush->from_request = true;
		requests->counts.queue_unseen++;
		return;
	}
	if (waiter->before)
		waiter->before = false;
	else
		waiter->after = false;
	flush->queue_ns = waiter->queue_ns;
	flush->origin = waiter->origin;
	flush->pid = waiter->pid;
	memcpy(flush->comm, waiter->comm, COMM_BYTES);
}

/* Notes where a request ends that begins where a bio was split: its completion may be found by that alone. */
static void add_end(struct requests *requests, const struct piece *request)
{
	struct piece end = *request;

	end.sector = sector_after(request->sector, request->bytes);
	end.state = PIECE_END;
	add(requests, &end);
}

static void remove_end(struct requests *requests, const struct event *event, struct piece *request)
{
	struct piece *end;

	if (!request->has_end)
		return;
	request->has_end = false;
	end = find(requests, event, sector_after(request->sector, request->bytes), PIECE_END, 0,
		   request->bytes);
	if (end)
		pieces_remove(&requests->pieces, end);
}

/* The request that has completed, if blkparse moved the start of its completion back to where a bio began. */
static struct piece *find_longer(struct requests *requests, const struct event *event)
{
	struct piece *end, *piece;
	uint64_t sector;

	if (!requests->splits.count)
		return NULL;
	end = find(requests, event, sector_after(event->sector, event->bytes), PIECE_END, 0, 0);
	if (!end || end->bytes >= event->bytes)
		return NULL;
	sector = end->sector - end->bytes / SECTOR_BYTES;
	if (splits_root(&requests->splits, event->device, sector) != event->sector)
		return NULL;
	piece = find(requests, event, sector, PIECE_IN_FLIGHT, 0, end->bytes);
	return piece && piece->bytes == end->bytes ? piece : NULL;
}

static void on_issue(struct requests *requests, struct device *device, const struct event *event)
{
	struct piece *stale = find(requests, event, event->sector, PIECE_IN_FLIGHT, 0, 0);
	struct piece request;
	bool is_flush = rows_op(event->action, event->bytes) == BLOCK_OP_FLUSH;

	device->takes_requests = true;
	if (stale && event->time > stale->issue_ns + STALE_NS) {
		remove_end(requests, event, stale);
		write_unended(requests, stale);
		pieces_remove(&requests->pieces, stale);
	}
	find_bio(requests, device, event);
	/* The flush-only bios at a flush's place are not it, but one that was given back is. */
	stale = is_flush ? find(requests, event, event->sector, PIECE_QUEUED, 0, 0) : NULL;
	if ((is_flush && !(stale && stale->requeues)) || !take(requests, event, &request)) {
		request = piece_of(requests, event);
		if (is_flush)
			flush_submitter(requests, device, &request);
		else
			request.from_request = true;
	}
	if (!is_flush && request.from_request && !(event->action & CATEGORY_PASSTHROUGH))
		requests->counts.queue_unseen++;
	if (event->action & CATEGORY_FUA && event->bytes) {
		device->writes_through = true;
		device->waiter.after = false;
	}
	request.bytes = event->bytes;
	/* A flush sequence takes these two off the request, not off its bio. */
	request.flags = event->action | (request.flags & (CATEGORY_FLUSH | CATEGORY_FUA));
	request.issue_ns = event->time;
	request.state = PIECE_IN_FLIGHT;
	request.rest = false;
	request.has_end = splits_root(&requests->splits, event->device, event->sector) !=
			  event->sector;
	add(requests, &request);
	if (request.has_end)
		add_end(requests, &request);
}

/* A completion of something that was not issued. */
static void complete_unissued(struct requests *requests, struct device *device,
			      const struct event *event)
{
	bool ended = device_may_be_volume(device) && volumes_complete(requests, device, event);
	struct piece bio;

	if (take(requests, event, &bio)) {
		if (ended) {
			; /* it was queued when its device was not known to be a volume */
		} else if (!event->bytes) {
			requests->counts.empty_flushes++;
		} else if (event->error) {
			requests->counts.failed_unissued++;
		} else {
			requests->counts.issue_unseen++;
		}
	} else if (ended) {
		; /* a bio of a volume */
	} else if (device_is_bio_volume(device)) {
		if (event->time < requests->first_ns + SECOND_NS)
			requests->counts.bio_queued_before++;
		else
			requests->counts.bio_unseen++;
	} else if (!event->bytes && !(event->action & CATEGORY_PASSTHROUGH)) {
		; /* a request around a flush ends, whose data was issued and ended before */
	} else if (event->time < requests->first_ns + SECOND_NS) {
		requests->counts.issued_before++;
	} else {
		requests->counts.issue_unseen++;
	}
}

static void on_complete(struct requests *requests, struct device *device, const struct event *event)
{
	struct piece *piece =
		find(requests, event, event->sector, PIECE_IN_FLIGHT, 0, event->bytes);
	struct piece left, *other;

	if (!piece || piece->bytes != event->bytes) {
		other = find_longer(requests, event);
		if (other) {
			requests->counts.longer++;
			piece = other;
		}
	}
	if (!piece) {
		complete_unissued(requests, device, event);
		return;
	}
	if (event->bytes >= piece->bytes) {
		remove_end(requests, event, piece);
		write_row(requests, device, piece, event->time, event->error);
		pieces_remove(&requests->pieces, piece);
		return;
	}
	requests->counts.partial++;
	left = *piece;
	pieces_remove(&requests->pieces, piece);
	left.sector = sector_after(left.sector, event->bytes);
	left.done_bytes += event->bytes;
	left.bytes -= event->bytes;
	add(requests, &left);
}

static void on_requeue(struct requests *requests, const struct event *event)
{
	struct piece *piece =
		find(requests, event, event->sector, PIECE_IN_FLIGHT, 0, event->bytes);

	/* Some drivers say no before the request counts as issued. */
	if (!piece)
		piece = find(requests, event, event->sector, PIECE_QUEUED, 0, event->bytes);
	if (!piece) {
		requests->counts.requeue_unknown++;
		return;
	}
	remove_end(requests, event, piece);
	piece->state = PIECE_QUEUED;
	if (piece->requeues < UINT16_MAX)
		piece->requeues++;
}

void pairing_event(struct requests *requests, struct device *device, const struct event *event)
{
	unsigned int action = action_number(event->action);

	switch (action) {
	case ACTION_QUEUE:
		on_queue(requests, device, event);
		break;
	case ACTION_GET_REQUEST:
	case ACTION_INSERT:
		on_request(requests, device, event, action == ACTION_INSERT);
		break;
	case ACTION_BACK_MERGE:
	case ACTION_FRONT_MERGE:
		on_merge(requests, device, event);
		break;
	case ACTION_SPLIT:
		on_split(requests, device, event);
		break;
	case ACTION_ISSUE:
		on_issue(requests, device, event);
		break;
	case ACTION_COMPLETE:
		on_complete(requests, device, event);
		break;
	case ACTION_REQUEUE:
		on_requeue(requests, event);
		break;
	case ACTION_PLUG:
		plugs_begin(&requests->plugs, event);
		break;
	case ACTION_UNPLUG:
	case ACTION_UNPLUG_TIMER:
		plugs_end(requests, event);
		break;
	default: /* sleeps, bounces, aborts, a driver's own data: counted, not needed for a request */
		break;
	}
}
