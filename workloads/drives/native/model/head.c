// SPDX-License-Identifier: BSD-2-Clause
/* The head: which request or destage it serves next, and how long that takes. */
#include "state.h"

#include <stdlib.h>

/* dirty extents on each side of the head of which the next destage is chosen */
#define NEIGHBOURS 16

/* What is left of the electronics' overhead when the head turns to this request now. */
static int64_t overhead_left_ns(const struct drive *drive, const struct slot *slot)
{
	int64_t left_ns = slot->admitted_ns + overhead_of(drive, slot->request.op) - drive->now_ns;

	return left_ns > 0 ? left_ns : 0;
}

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

static bool is_old(const struct drive *drive, const struct slot *slot)
{
	return drive->params.most_age_ns &&
	       drive->now_ns - slot->admitted_ns > drive->params.most_age_ns;
}

/* The request that the head serves next, or DRIVE_NONE. */
static uint32_t choose_request(const struct drive *drive)
{
	uint32_t chosen = DRIVE_NONE;
	int64_t least = DRIVE_NEVER;

	for (uint32_t i = 0; i < drive->queued; i++) {
		uint32_t number = drive->queue[i];
		const struct slot *slot = &drive->slots[number];
		int64_t cost;

		if (slot->busy || slot->hit || slot->cacheable)
			continue;
		if (chosen == DRIVE_NONE &&
		    (drive->params.scheduling == DRIVE_FIFO || is_old(drive, slot)))
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

/*
 * Sectors that pass the head between its arrival on the track and the read's first sector: the platter brings them
 * anyway. Only for a segment that begins here.
 */
static uint32_t passed_before(const struct drive *drive, const struct work *work, uint64_t sector)
{
	const struct geometry *geometry = &drive->mechanics.geometry;
	const struct segment *segment = &drive->ahead.segments[work->segment];
	uint64_t before;
	struct place place;
	struct run run;

	if (segment->low != segment->high)
		return 0;
	mechanics_run(&drive->mechanics, &drive->head,
		      work->service.start_ns + work->service.overhead_ns, sector, 1, false, &run);
	place = run.place;
	before = (uint64_t)run.rotation_ns * place.sectors_per_track /
		 (uint64_t)geometry->revolution_ns;
	if (before > run.first)
		before = run.first;
	if (before > sector)
		before = sector;
	return (uint32_t)before;
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
		electronics_forget_read(drive, request);
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
		if (drive->params.read_before && work->segment != LOOK_AHEAD_NONE)
			work->before = passed_before(drive, work, sector);
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

/* Of extents, the one that the head reaches first. */
struct first_reached {
	uint32_t extent; /* EXTENTS_NONE: none yet */
	int64_t positioning_ns;
};

static void consider(const struct drive *drive, uint32_t extent, struct first_reached *first)
{
	int64_t cost_ns = destage_positioning_ns(drive, extent, first->positioning_ns);

	if (cost_ns < first->positioning_ns)
		*first = (struct first_reached){ extent, cost_ns };
}

/* The extent that the head reaches first, of the nearest on both sides. There is one. */
static uint32_t choose_near(const struct drive *drive)
{
	struct first_reached first = { EXTENTS_NONE, DRIVE_NEVER };
	uint32_t above = extents_at(&drive->dirty, drive->head_sector);
	uint32_t below = extents_before(&drive->dirty, above);

	for (int i = 0; i < NEIGHBOURS; i++) {
		if (above != EXTENTS_NONE) {
			consider(drive, above, &first);
			above = extents_after(&drive->dirty, above);
		}
		if (below != EXTENTS_NONE) {
			consider(drive, below, &first);
			below = extents_before(&drive->dirty, below);
		}
	}
	return first.extent;
}

/* The same of the oldest extents. */
static uint32_t choose_old(const struct drive *drive)
{
	uint32_t extent = extents_oldest(&drive->dirty);
	struct first_reached first = { extent, DRIVE_NEVER };

	for (uint32_t i = 0; i < drive->params.destage_window && extent != EXTENTS_NONE; i++) {
		consider(drive, extent, &first);
		extent = extents_newer(&drive->dirty, extent);
	}
	return first.extent;
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
	*work = (struct work){ .slot = DRIVE_NONE, .segment = LOOK_AHEAD_NONE };
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

/* When destages begin by themselves; DRIVE_NEVER: there is nothing to destage. */
int64_t head_idle_from_ns(const struct drive *drive)
{
	return drive->dirty.count ? drive->last_request_ns + drive->params.destage_idle_ns
				  : DRIVE_NEVER;
}

void head_start(struct drive *drive)
{
	uint32_t chosen;

	if (drive->flush != DRIVE_NONE) {
		if (drive->dirty.count)
			start_destage(drive);
		return;
	}
	chosen = choose_request(drive);
	if (must_destage(drive) && (chosen == DRIVE_NONE || !drive->destaged_last)) {
		start_destage(drive);
	} else if (chosen != DRIVE_NONE) {
		drive->destaged_last = false;
		start_media(drive, chosen);
	} else if (head_idle_from_ns(drive) <= drive->now_ns) {
		start_destage(drive);
	}
}

/* The head's work is over: where it is, and what it reads ahead from here. */
void head_end_work(struct drive *drive)
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
	    ahead->segments[work->segment].high == work->media_sector) {
		look_ahead_begin(ahead, work->segment, work->media_end, work->media_end_ns,
				 &work->head);
		if (work->before)
			look_ahead_keep(ahead, work->before);
	}
	work->stage = IDLE;
	work->segment = LOOK_AHEAD_NONE;
}
