// SPDX-License-Identifier: BSD-2-Clause
#include "drive.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "extents.h"
#include "look_ahead.h"
#include "mechanics.h"
#include "params.h"

#define NONE	   UINT32_MAX
#define NEVER	   INT64_MAX
/* of an arrival: 146 years, so that no sum of times overflows */
#define MOST_NS	   (INT64_MAX / 2)
/* dirty extents on each side of the head of which the next destage is chosen */
#define NEIGHBOURS 16

struct slot {
	struct drive_request request; /* sector: of the drive, first_sector added */
	struct place place;
	int64_t admitted_ns; /* to the drive's queue */
	uint32_t next;	     /* waiting in the host's order, or free */
	bool busy;	     /* being served */
	bool hit;	     /* was seen in the cache or in a segment */
	bool cacheable;	     /* a write for the write cache, not larger than half of it */
};

enum stage { IDLE, POSITIONING, TRANSFERRING };

/* What the head does. */
struct work {
	enum stage stage;
	uint32_t slot;	       /* NONE: a destage */
	uint32_t segment;      /* of a read that read-ahead goes on from, else LOOK_AHEAD_NONE */
	uint64_t media_sector; /* of a read: what came before was in the segment */
	uint64_t media_end;
	int64_t begin_ns;     /* transfer from or to the platter */
	int64_t media_end_ns; /* the head is beyond the last sector */
	bool is_on_media;     /* MEDIA_END has been told */
	struct head head;
	struct drive_service service;
};

struct drive {
	struct drive_params params;
	struct mechanics mechanics;
	struct extents dirty;
	struct look_ahead ahead;
	int64_t now_ns;

	struct slot *slots;
	uint32_t most_requests;
	uint32_t free_slot;
	uint32_t requests;
	uint32_t host_first, host_last; /* waiting for the drive's queue */
	int64_t last_arrival_ns;

	uint32_t queue[DRIVE_MOST_DEPTH]; /* slots, oldest first */
	uint32_t queued;

	struct head head;
	uint64_t head_sector; /* where the head's last work ended: destages are sought around it */
	struct work work;
	uint64_t capacity; /* sectors of the write cache */
	uint64_t destage_sectors,
		destage_extents; /* from these on destages take turns with requests */
	bool wants_room;	 /* a write waits for room in the cache */
	bool destaged_last;
	bool is_draining;
	int64_t last_request_ns;
	bool is_settled; /* all that can start has started */

	uint32_t electronics; /* slot, or NONE */
	struct drive_service electronics_service;

	uint32_t flush;	       /* slot, or NONE */
	int64_t last_media_ns; /* the head ended its last work */
	struct drive_service flush_service;
};

struct drive *drive_new(const struct drive_params *params, uint32_t most_requests, uint64_t seed)
{
	char error[DRIVE_ERROR_BYTES];
	struct drive *drive;

	if (most_requests < 1 || most_requests > DRIVE_MOST_REQUESTS ||
	    drive_params_check(params, error) < 0) {
		errno = EINVAL;
		return NULL;
	}
	drive = calloc(1, sizeof(*drive));
	if (!drive)
		return NULL;
	drive->params = *params;
	mechanics_init(&drive->mechanics, params, seed);
	drive->most_requests = most_requests;
	drive->capacity = params->write_cache_bytes / 512;
	drive->destage_sectors = (uint64_t)(params->destage_at * (double)drive->capacity);
	drive->destage_extents = (uint64_t)(params->destage_at * params->write_cache_extents);
	drive->slots = calloc(most_requests, sizeof(*drive->slots));
	/* one extent more: a write that comes while the cache has all but one may be cut in two by a write through */
	if (!drive->slots ||
	    extents_init(&drive->dirty, drive->capacity ? params->write_cache_extents + 1 : 0) <
		    0 ||
	    look_ahead_init(&drive->ahead, params->read_segments, params->segment_sectors,
			    params->first_sector + params->sectors) < 0) {
		drive_free(drive);
		errno = ENOMEM;
		return NULL;
	}
	drive_reset(drive);
	return drive;
}

void drive_free(struct drive *drive)
{
	if (!drive)
		return;
	free(drive->slots);
	extents_free(&drive->dirty);
	look_ahead_free(&drive->ahead);
	free(drive);
}

void drive_reset(struct drive *drive)
{
	for (uint32_t i = 0; i < drive->most_requests; i++)
		drive->slots[i].next = i + 1 < drive->most_requests ? i + 1 : NONE;
	drive->free_slot = 0;
	drive->requests = 0;
	drive->host_first = drive->host_last = NONE;
	drive->queued = 0;
	drive->work = (struct work){ .stage = IDLE, .slot = NONE, .segment = LOOK_AHEAD_NONE };
	drive->wants_room = false;
	drive->destaged_last = false;
	drive->is_draining = false;
	drive->last_request_ns = drive->last_media_ns = drive->last_arrival_ns = drive->now_ns;
	drive->electronics = NONE;
	drive->flush = NONE;
	extents_clear(&drive->dirty);
	look_ahead_clear(&drive->ahead);
}

int drive_submit(struct drive *drive, const struct drive_request *request)
{
	uint32_t number = drive->free_slot;
	struct slot *slot;

	if ((unsigned int)request->op > DRIVE_OP_FLUSH || request->arrival_ns > MOST_NS ||
	    (request->op != DRIVE_OP_FLUSH &&
	     (request->sectors < 1 || request->sectors > DRIVE_MOST_SECTORS))) {
		errno = EINVAL;
		return -1;
	}
	if (request->op != DRIVE_OP_FLUSH &&
	    (request->sector >= drive->params.sectors ||
	     request->sectors > drive->params.sectors - request->sector)) {
		errno = ERANGE;
		return -1;
	}
	if (number == NONE) {
		errno = EAGAIN;
		return -1;
	}
	slot = &drive->slots[number];
	drive->free_slot = slot->next;
	*slot = (struct slot){ .request = *request, .next = NONE };
	if (drive->last_arrival_ns < drive->now_ns)
		drive->last_arrival_ns = drive->now_ns;
	if (slot->request.arrival_ns < drive->last_arrival_ns)
		slot->request.arrival_ns = drive->last_arrival_ns;
	drive->last_arrival_ns = slot->request.arrival_ns;
	slot->request.sector += drive->params.first_sector;
	if (drive->host_last == NONE)
		drive->host_first = number;
	else
		drive->slots[drive->host_last].next = number;
	drive->host_last = number;
	drive->requests++;
	if (slot->request.arrival_ns <= drive->now_ns)
		drive->is_settled = false;
	return 0;
}

static int64_t bus_ns(const struct drive *drive, uint64_t sectors)
{
	return llround((double)sectors * 512e9 / drive->params.bus_bytes_per_s);
}

static int64_t overhead_of(const struct drive *drive, enum drive_op op)
{
	return op == DRIVE_OP_READ ? drive->params.read_overhead_ns
				   : drive->params.write_overhead_ns;
}

/* What is left of the electronics' overhead when the head turns to this request now. */
static int64_t overhead_left_ns(const struct drive *drive, const struct slot *slot)
{
	int64_t left_ns = slot->admitted_ns + overhead_of(drive, slot->request.op) - drive->now_ns;

	return left_ns > 0 ? left_ns : 0;
}

static uint64_t in_flight(const struct drive *drive)
{
	return drive->work.stage != IDLE && drive->work.slot == NONE ? drive->work.service.sectors
								     : 0;
}

/* Whether each of these sectors is in the write cache, the destage that is under way too. */
static bool is_all_cached(const struct drive *drive, uint64_t sector, uint64_t sectors)
{
	uint64_t end = sector + sectors;
	const struct drive_service *destage = &drive->work.service;

	while (sector < end) {
		uint32_t number = extents_at(&drive->dirty, sector);
		const struct extent *extent = &drive->dirty.all[number];

		if (number != EXTENTS_NONE && extent->sector <= sector)
			sector = extent->sector + extent->sectors;
		else if (in_flight(drive) && destage->sector <= sector &&
			 sector < destage->sector + destage->sectors)
			sector = destage->sector + destage->sectors;
		else
			return false;
	}
	return true;
}

/* Whether the read's data is in memory now, and where. */
static bool find_hit(const struct drive *drive, const struct drive_request *read,
		     enum drive_how *how, uint32_t *segment)
{
	const struct look_ahead *ahead = &drive->ahead;

	if (drive->capacity && is_all_cached(drive, read->sector, read->sectors)) {
		*how = DRIVE_HOW_CACHE;
		return true;
	}
	*segment = look_ahead_find(ahead, read->sector);
	*how = DRIVE_HOW_READ_AHEAD;
	return *segment != LOOK_AHEAD_NONE &&
	       read->sector + read->sectors <= ahead->segments[*segment].high;
}

/* Reads of the queue that these sectors, now in memory, serve. */
static void mark_hits(struct drive *drive, uint64_t low, uint64_t high)
{
	for (uint32_t i = 0; i < drive->queued; i++) {
		struct slot *slot = &drive->slots[drive->queue[i]];
		const struct drive_request *request = &slot->request;

		if (!slot->busy && request->op == DRIVE_OP_READ && low <= request->sector &&
		    request->sector + request->sectors <= high)
			slot->hit = true;
	}
}

static void begin_service(const struct drive *drive, const struct slot *slot,
			  struct drive_service *service)
{
	*service = (struct drive_service){
		.id = slot->request.id,
		.op = slot->request.op,
		.fua = slot->request.fua,
		.sector = slot->request.sector,
		.sectors = slot->request.sectors,
		.queued = drive->queued,
		.cylinder = drive->head.cylinder,
		.arrival_ns = slot->request.arrival_ns,
		.start_ns = drive->now_ns,
	};
}

/* Takes requests that have arrived into the drive's queue. A flush waits until the queue is empty, and bars it. */
static void admit(struct drive *drive)
{
	while (drive->host_first != NONE && drive->flush == NONE) {
		uint32_t number = drive->host_first;
		struct slot *slot = &drive->slots[number];
		struct drive_request *request = &slot->request;
		enum drive_how how;
		uint32_t segment;

		if (request->arrival_ns > drive->now_ns)
			return;
		if (request->op == DRIVE_OP_FLUSH ? drive->queued > 0
						  : drive->queued == drive->params.queue_depth)
			return;
		drive->host_first = slot->next;
		if (drive->host_first == NONE)
			drive->host_last = NONE;
		slot->admitted_ns = drive->last_request_ns = drive->now_ns;
		drive->queue[drive->queued++] = number;
		if (request->op == DRIVE_OP_FLUSH) {
			drive->flush = number;
			begin_service(drive, slot, &drive->flush_service);
			drive->flush_service.overhead_ns = drive->params.write_overhead_ns;
			return;
		}
		geometry_find(&drive->mechanics.geometry, request->sector, &slot->place);
		slot->cacheable = request->op == DRIVE_OP_WRITE && !request->fua &&
				  request->sectors <= drive->capacity / 2;
		if (request->op == DRIVE_OP_READ) {
			look_ahead_advance(&drive->ahead, &drive->mechanics, drive->now_ns);
			slot->hit = find_hit(drive, request, &how, &segment);
		}
	}
}

/* --- electronics ---------------------------------------------------------------------------------------- */

static bool has_room(struct drive *drive, const struct drive_request *write)
{
	uint64_t more =
		write->sectors - extents_overlap(&drive->dirty, write->sector, write->sectors);

	if (drive->dirty.sectors + in_flight(drive) + more > drive->capacity ||
	    drive->dirty.count + (in_flight(drive) > 0) >= drive->params.write_cache_extents)
		return false;
	return true;
}

/* A write changes these sectors: what was read of them is old. */
static void forget_read(struct drive *drive, const struct drive_request *write)
{
	uint64_t end = write->sector + write->sectors;

	if (look_ahead_forget(&drive->ahead, write->sector, write->sectors))
		drive->head = drive->ahead.head;
	if (drive->work.segment != LOOK_AHEAD_NONE && write->sector < drive->work.media_end &&
	    end > drive->work.media_sector)
		drive->work.segment = LOOK_AHEAD_NONE;
}

static void start_electronics(struct drive *drive)
{
	struct drive_service *service = &drive->electronics_service;

	drive->wants_room = false;
	for (uint32_t i = 0; i < drive->queued; i++) {
		uint32_t number = drive->queue[i], segment;
		struct slot *slot = &drive->slots[number];
		struct drive_request *request = &slot->request;
		enum drive_how how = DRIVE_HOW_CACHE;

		if (slot->busy)
			continue;
		if (slot->cacheable) {
			/* a smaller write does not overtake the one that waits */
			if (drive->wants_room)
				continue;
			drive->wants_room = !has_room(drive, request);
			if (drive->wants_room)
				continue;
			forget_read(drive, request);
		} else {
			if (!slot->hit)
				continue;
			slot->hit = find_hit(drive, request, &how, &segment);
			if (!slot->hit)
				continue;
			if (how == DRIVE_HOW_READ_AHEAD) {
				drive->ahead.segments[segment].used = ++drive->ahead.uses;
				if (segment == drive->ahead.active)
					look_ahead_extend(&drive->ahead,
							  request->sector + request->sectors,
							  drive->now_ns);
			}
		}
		slot->busy = true;
		drive->electronics = number;
		begin_service(drive, slot, service);
		service->how = how;
		service->overhead_ns = overhead_of(drive, request->op);
		service->transfer_ns = bus_ns(drive, request->sectors);
		service->end_ns = service->start_ns + service->overhead_ns + service->transfer_ns;
		return;
	}
}

/* --- the head ------------------------------------------------------------------------------------------- */

/* The head leaves what it reads ahead, where it is. */
static void stop_look_ahead(struct drive *drive)
{
	struct look_ahead *ahead = &drive->ahead;

	if (ahead->active == LOOK_AHEAD_NONE)
		return;
	drive->head = ahead->head;
	drive->head_sector = ahead->segments[ahead->active].high;
	ahead->active = LOOK_AHEAD_NONE;
}

/* Whether the read is what the head reads ahead next, or lies up to a track further on. */
static bool is_continuation(const struct drive *drive, const struct slot *slot)
{
	const struct drive_request *request = &slot->request;
	const struct segment *segment;

	if (request->op != DRIVE_OP_READ || drive->ahead.active == LOOK_AHEAD_NONE)
		return false;
	segment = &drive->ahead.segments[drive->ahead.active];
	return segment->low <= request->sector &&
	       request->sector <= segment->high + slot->place.sectors_per_track;
}

static const struct head *head_of(const struct drive *drive)
{
	return drive->ahead.active == LOOK_AHEAD_NONE ? &drive->head : &drive->ahead.head;
}

/* Time until the head is there; least_ns or more, if it is certainly not less. */
static int64_t positioning_ns(const struct drive *drive, const struct slot *slot, int64_t least_ns)
{
	int64_t at_ns = drive->now_ns + overhead_left_ns(drive, slot), move_ns;

	if (is_continuation(drive, slot))
		return 0;
	move_ns = mechanics_move_ns(&drive->mechanics, head_of(drive), &slot->place,
				    slot->request.op == DRIVE_OP_WRITE);
	if (at_ns + move_ns - drive->now_ns >= least_ns)
		return least_ns;
	return move_ns + mechanics_turn_ns(&drive->mechanics, &slot->place, at_ns + move_ns) +
	       at_ns - drive->now_ns;
}

static int64_t distance_of(const struct drive *drive, const struct slot *slot)
{
	return llabs((int64_t)slot->place.cylinder - (int64_t)head_of(drive)->cylinder);
}

/* The request that the head serves next, or NONE. */
static uint32_t choose_request(const struct drive *drive)
{
	uint32_t chosen = NONE;
	int64_t least = NEVER;

	for (uint32_t i = 0; i < drive->queued; i++) {
		uint32_t number = drive->queue[i];
		const struct slot *slot = &drive->slots[number];
		int64_t cost;

		if (slot->busy || slot->hit || slot->cacheable)
			continue;
		if (chosen == NONE &&
		    (drive->params.scheduling == DRIVE_FIFO ||
		     drive->now_ns - slot->admitted_ns > drive->params.most_age_ns))
			return number;
		cost = drive->params.scheduling == DRIVE_SSTF ? distance_of(drive, slot)
							      : positioning_ns(drive, slot, least);
		if (cost < least) {
			least = cost;
			chosen = number;
		}
	}
	return chosen;
}

static void finish_times(struct work *work, const struct pass *pass)
{
	struct drive_service *service = &work->service;

	service->seek_ns = pass->seek_ns;
	service->rotation_ns = pass->rotation_ns;
	service->transfer_ns = pass->transfer_ns;
	service->cylinder = pass->head.cylinder;
	service->end_ns = pass->end_ns;
	work->begin_ns = pass->begin_ns;
	work->media_end_ns = pass->end_ns;
	work->head = pass->head;
	work->stage = POSITIONING;
}

/* A read goes on with what the head reads ahead: it has only to wait. */
static void start_continuation(struct drive *drive, const struct slot *slot)
{
	struct look_ahead *ahead = &drive->ahead;
	struct work *work = &drive->work;
	struct drive_service *service = &work->service;
	uint64_t end = slot->request.sector + slot->request.sectors;
	int64_t bus_end_ns, ready_ns;

	look_ahead_extend(ahead, end, drive->now_ns);
	ahead->segments[ahead->active].used = ++ahead->uses;
	service->how = DRIVE_HOW_READ_AHEAD;
	bus_end_ns = drive->now_ns + service->overhead_ns + bus_ns(drive, slot->request.sectors);
	ready_ns = look_ahead_ready_ns(ahead, &drive->mechanics, end);
	service->end_ns = ready_ns > bus_end_ns ? ready_ns : bus_end_ns;
	service->transfer_ns = service->end_ns - service->start_ns - service->overhead_ns;
	service->cylinder = slot->place.cylinder;
	work->begin_ns = work->media_end_ns = service->end_ns;
	work->segment = LOOK_AHEAD_NONE;
	work->stage = TRANSFERRING;
}

static void start_media(struct drive *drive, uint32_t number)
{
	struct slot *slot = &drive->slots[number];
	const struct drive_request *request = &slot->request;
	struct work *work = &drive->work;
	struct drive_service *service = &work->service;
	bool writes = request->op == DRIVE_OP_WRITE, continues = is_continuation(drive, slot);
	uint64_t sector = request->sector, end = sector + request->sectors;
	int64_t bus_end_ns;
	struct pass pass;

	slot->busy = true;
	*work = (struct work){ .slot = number, .segment = LOOK_AHEAD_NONE };
	begin_service(drive, slot, service);
	service->overhead_ns = overhead_left_ns(drive, slot);
	service->by_head = true;
	if (continues) {
		start_continuation(drive, slot);
		return;
	}
	stop_look_ahead(drive);
	if (writes) {
		forget_read(drive, request);
		/* what the cache had of these sectors is old */
		if (drive->capacity)
			extents_remove(&drive->dirty, sector, request->sectors);
	} else if (drive->params.read_segments) {
		work->segment = look_ahead_take(&drive->ahead, sector);
		if (drive->ahead.segments[work->segment].high < end)
			sector = drive->ahead.segments[work->segment].high;
		else
			work->segment = LOOK_AHEAD_NONE;
	}
	work->media_sector = sector;
	work->media_end = end;
	mechanics_pass(&drive->mechanics, &drive->head, drive->now_ns + service->overhead_ns,
		       sector, end - sector, writes, &pass);
	finish_times(work, &pass);
	if (!writes) {
		/* a bus slower than the platter: the head is free all the same, but the model keeps it simple */
		bus_end_ns = pass.begin_ns + bus_ns(drive, end - sector);
		if (service->end_ns < bus_end_ns) {
			service->transfer_ns += bus_end_ns - service->end_ns;
			service->end_ns = bus_end_ns;
		}
		work->stage = TRANSFERRING;
	}
}

/* Time until the head can write the beginning of this extent; least_ns, if it is not less. */
static int64_t destage_positioning_ns(const struct drive *drive, uint32_t extent, int64_t least_ns)
{
	struct place place;
	int64_t move_ns;

	geometry_find(&drive->mechanics.geometry, drive->dirty.all[extent].sector, &place);
	move_ns = mechanics_move_ns(&drive->mechanics, &drive->head, &place, true);
	if (move_ns >= least_ns)
		return least_ns;
	return move_ns + mechanics_turn_ns(&drive->mechanics, &place, drive->now_ns + move_ns);
}

/* The extent that the head reaches first, of the nearest on both sides. There is one. */
static uint32_t choose_near(const struct drive *drive)
{
	uint32_t above = extents_at(&drive->dirty, drive->head_sector), below,
		 chosen = EXTENTS_NONE;
	int64_t least = NEVER, cost;

	below = extents_before(&drive->dirty, above);
	for (int i = 0; i < NEIGHBOURS; i++) {
		if (above != EXTENTS_NONE) {
			cost = destage_positioning_ns(drive, above, least);
			if (cost < least) {
				least = cost;
				chosen = above;
			}
			above = extents_after(&drive->dirty, above);
		}
		if (below != EXTENTS_NONE) {
			cost = destage_positioning_ns(drive, below, least);
			if (cost < least) {
				least = cost;
				chosen = below;
			}
			below = extents_before(&drive->dirty, below);
		}
	}
	return chosen;
}

/* The same of the oldest extents. */
static uint32_t choose_old(const struct drive *drive)
{
	uint32_t extent = extents_oldest(&drive->dirty), chosen = extent;
	int64_t least = NEVER, cost;

	for (uint32_t i = 0; i < drive->params.destage_window && extent != EXTENTS_NONE; i++) {
		cost = destage_positioning_ns(drive, extent, least);
		if (cost < least) {
			least = cost;
			chosen = extent;
		}
		extent = extents_newer(&drive->dirty, extent);
	}
	return chosen;
}

/*
 * Writes an extent, up to the end of its first track: a request need not wait for more. And only a part of the cache,
 * so that what comes next has room meanwhile: else a cache below two tracks would lose a revolution each time.
 */
static void start_destage(struct drive *drive)
{
	struct work *work = &drive->work;
	const struct extent *extent;
	uint64_t sectors;
	struct pass pass;
	struct run run;

	stop_look_ahead(drive);
	extent = &drive->dirty.all[drive->params.destage_window ? choose_old(drive)
								: choose_near(drive)];
	*work = (struct work){ .slot = NONE, .segment = LOOK_AHEAD_NONE };
	sectors = drive->capacity / 8 > 8 ? drive->capacity / 8 : 8;
	if (sectors > extent->sectors)
		sectors = extent->sectors;
	mechanics_run(&drive->mechanics, &drive->head, drive->now_ns, extent->sector, sectors, true,
		      &run);
	work->service = (struct drive_service){
		.op = DRIVE_OP_DESTAGE,
		.by_head = true,
		.sector = extent->sector,
		.sectors = run.sectors,
		.queued = drive->queued,
		.start_ns = drive->now_ns,
	};
	pass = (struct pass){
		.head = run.head,
		.seek_ns = run.seek_ns,
		.rotation_ns = run.rotation_ns,
		.transfer_ns = run.end_ns - run.begin_ns,
		.begin_ns = run.begin_ns,
		.end_ns = run.end_ns,
	};
	finish_times(work, &pass);
	extents_remove(&drive->dirty, work->service.sector, run.sectors);
	drive->destaged_last = true;
}

/*
 * Whether destages take turns with requests: from the mark on until the cache is empty. Single destages at the mark
 * would lose a revolution each in a sequential stream.
 */
static bool must_destage(struct drive *drive)
{
	if (drive->wants_room || drive->dirty.sectors > drive->destage_sectors ||
	    drive->dirty.count > drive->destage_extents)
		drive->is_draining = true;
	else if (!drive->dirty.count)
		drive->is_draining = false;
	return drive->is_draining && drive->dirty.count;
}

/* When destages begin by themselves; NEVER: there is nothing to destage. */
static int64_t idle_from_ns(const struct drive *drive)
{
	return drive->dirty.count ? drive->last_request_ns + drive->params.destage_idle_ns : NEVER;
}

static void start_head(struct drive *drive)
{
	uint32_t chosen;

	if (drive->flush != NONE) {
		if (drive->dirty.count)
			start_destage(drive);
		return;
	}
	chosen = choose_request(drive);
	if (must_destage(drive) && (chosen == NONE || !drive->destaged_last)) {
		start_destage(drive);
	} else if (chosen != NONE) {
		drive->destaged_last = false;
		start_media(drive, chosen);
	} else if (idle_from_ns(drive) <= drive->now_ns) {
		start_destage(drive);
	}
}

/* Starts all that can start now. */
static void dispatch(struct drive *drive)
{
	admit(drive);
	if (drive->flush == NONE) {
		look_ahead_advance(&drive->ahead, &drive->mechanics, drive->now_ns);
		if (drive->ahead.active != LOOK_AHEAD_NONE && drive->queued) {
			const struct segment *segment = &drive->ahead.segments[drive->ahead.active];

			mark_hits(drive, segment->low, segment->high);
		}
		if (drive->electronics == NONE)
			start_electronics(drive);
	}
	if (drive->work.stage == IDLE)
		start_head(drive);
}

/* --- events --------------------------------------------------------------------------------------------- */

static int64_t earlier(int64_t a_ns, int64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

static int64_t work_ns(const struct drive *drive)
{
	const struct work *work = &drive->work;

	switch (work->stage) {
	case POSITIONING:
		return work->begin_ns;
	case TRANSFERRING:
		return work->service.end_ns;
	default:
		return NEVER;
	}
}

/* The end of the flush, once nothing is dirty; NEVER before. */
static int64_t flush_ns(const struct drive *drive)
{
	int64_t end_ns = drive->flush_service.start_ns + drive->flush_service.overhead_ns;

	if (drive->flush == NONE || drive->work.stage != IDLE || drive->dirty.count)
		return NEVER;
	return drive->last_media_ns > end_ns ? drive->last_media_ns : end_ns;
}

/* The next moment at which anything changes, after a dispatch. */
static int64_t next_ns(const struct drive *drive)
{
	int64_t next = earlier(work_ns(drive), flush_ns(drive));

	if (drive->electronics != NONE)
		next = earlier(next, drive->electronics_service.end_ns);
	if (drive->work.stage == IDLE && drive->flush == NONE)
		next = earlier(next, idle_from_ns(drive));
	/* an arrival that has come already waits for another's end */
	if (drive->host_first != NONE &&
	    drive->slots[drive->host_first].request.arrival_ns > drive->now_ns)
		next = earlier(next, drive->slots[drive->host_first].request.arrival_ns);
	return next > drive->now_ns ? next : drive->now_ns;
}

static void release(struct drive *drive, uint32_t number)
{
	uint32_t i = 0;

	while (drive->queue[i] != number)
		i++;
	drive->queued--;
	memmove(&drive->queue[i], &drive->queue[i + 1],
		(drive->queued - i) * sizeof(drive->queue[0]));
	drive->slots[number].next = drive->free_slot;
	drive->free_slot = number;
	drive->requests--;
	drive->last_request_ns = drive->now_ns;
}

static void tell(const struct drive *drive, struct drive_event *event, enum drive_event_kind kind,
		 const struct drive_service *service)
{
	event->kind = kind;
	event->at_ns = drive->now_ns;
	event->service = *service;
	if (service->op != DRIVE_OP_FLUSH)
		event->service.sector -= drive->params.first_sector;
}

/* The head's work is over: where it is, and what it reads ahead from here. */
static void end_work(struct drive *drive)
{
	struct work *work = &drive->work;
	struct look_ahead *ahead = &drive->ahead;

	drive->last_media_ns = drive->now_ns;
	if (work->service.how == DRIVE_HOW_MEDIA) {
		drive->head = work->head;
		drive->head_sector = work->service.sector + work->service.sectors;
	}
	/* a write may have emptied the segment meanwhile */
	if (work->segment != LOOK_AHEAD_NONE &&
	    ahead->segments[work->segment].high == work->media_sector)
		look_ahead_begin(ahead, work->segment, work->media_end, work->media_end_ns,
				 &work->head);
	work->stage = IDLE;
	work->segment = LOOK_AHEAD_NONE;
}

/* The next event of the head, which is due. */
static void step_work(struct drive *drive, struct drive_event *event)
{
	struct work *work = &drive->work;
	uint32_t number = work->slot;

	if (work->stage == POSITIONING) {
		work->stage = TRANSFERRING;
		tell(drive, event, DRIVE_EVENT_MEDIA_BEGIN, &work->service);
		return;
	}
	if (work->service.op != DRIVE_OP_READ && !work->is_on_media) {
		work->is_on_media = true;
		tell(drive, event, DRIVE_EVENT_MEDIA_END, &work->service);
		if (number == NONE)
			end_work(drive);
		return;
	}
	tell(drive, event, DRIVE_EVENT_DONE, &work->service);
	end_work(drive);
	release(drive, number);
}

static void step_electronics(struct drive *drive, struct drive_event *event)
{
	struct drive_service *service = &drive->electronics_service;
	uint32_t number = drive->electronics;

	if (service->op == DRIVE_OP_WRITE) {
		const struct extent *extent;

		/* has_room() has left an extent for it, and extents_remove() leaves it */
		if (!extents_add(&drive->dirty, service->sector, service->sectors))
			abort();
		extent = &drive->dirty.all[extents_at(&drive->dirty, service->sector)];
		mark_hits(drive, extent->sector, extent->sector + extent->sectors);
	}
	service->cylinder = drive->head.cylinder;
	tell(drive, event, DRIVE_EVENT_DONE, service);
	drive->electronics = NONE;
	release(drive, number);
}

static void step_flush(struct drive *drive, struct drive_event *event)
{
	struct drive_service *service = &drive->flush_service;

	service->end_ns = drive->now_ns;
	service->wait_ns = service->end_ns - service->start_ns - service->overhead_ns;
	service->cylinder = drive->head.cylinder;
	tell(drive, event, DRIVE_EVENT_DONE, service);
	release(drive, drive->flush);
	drive->flush = NONE;
}

bool drive_step(struct drive *drive, int64_t until_ns, struct drive_event *event)
{
	for (;;) {
		int64_t next;

		dispatch(drive);
		next = next_ns(drive);
		if (next > until_ns || next == NEVER) {
			if (drive->now_ns < until_ns && until_ns != NEVER)
				drive->now_ns = until_ns;
			drive->is_settled = true;
			event->kind = DRIVE_EVENT_NONE;
			return false;
		}
		drive->now_ns = next;
		drive->is_settled = false;
		if (work_ns(drive) <= next)
			step_work(drive, event);
		else if (drive->electronics != NONE && drive->electronics_service.end_ns <= next)
			step_electronics(drive, event);
		else if (flush_ns(drive) <= next)
			step_flush(drive, event);
		else
			continue; /* an arrival, or an idle time that is over */
		return true;
	}
}

int64_t drive_next_ns(const struct drive *drive)
{
	return drive->is_settled ? next_ns(drive) : drive->now_ns;
}

void drive_dirty(const struct drive *drive,
		 void (*visit)(uint64_t sector, uint32_t sectors, void *argument), void *argument)
{
	uint64_t first = drive->params.first_sector;

	if (in_flight(drive))
		visit(drive->work.service.sector - first, drive->work.service.sectors, argument);
	for (uint32_t i = extents_oldest(&drive->dirty); i != EXTENTS_NONE;
	     i = extents_newer(&drive->dirty, i))
		visit(drive->dirty.all[i].sector - first, drive->dirty.all[i].sectors, argument);
}

bool drive_is_dirty(const struct drive *drive, uint64_t sector, uint32_t sectors)
{
	return extents_overlap(&drive->dirty, sector + drive->params.first_sector, sectors) > 0;
}

int64_t drive_now_ns(const struct drive *drive)
{
	return drive->now_ns;
}

uint32_t drive_requests(const struct drive *drive)
{
	return drive->requests;
}

uint64_t drive_dirty_bytes(const struct drive *drive)
{
	return (drive->dirty.sectors + in_flight(drive)) * 512;
}

uint64_t drive_sectors(const struct drive *drive)
{
	return drive->params.sectors;
}

uint32_t drive_cylinders(const struct drive *drive)
{
	return drive->mechanics.geometry.cylinders;
}
