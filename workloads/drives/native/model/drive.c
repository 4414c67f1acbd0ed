// SPDX-License-Identifier: BSD-2-Clause
/* The drive's queue, its clock and its events. */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* of an arrival: 146 years, so that no sum of times overflows */
#define MOST_NS (INT64_MAX / 2)

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
		drive->slots[i].next = i + 1 < drive->most_requests ? i + 1 : DRIVE_NONE;
	drive->free_slot = 0;
	drive->requests = 0;
	drive->host_first = drive->host_last = DRIVE_NONE;
	drive->queued = 0;
	drive->work =
		(struct work){ .stage = IDLE, .slot = DRIVE_NONE, .segment = LOOK_AHEAD_NONE };
	drive->wants_room = false;
	drive->destaged_last = false;
	drive->is_draining = false;
	drive->last_request_ns = drive->last_media_ns = drive->last_arrival_ns = drive->now_ns;
	drive->electronics = DRIVE_NONE;
	drive->flush = DRIVE_NONE;
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
	if (number == DRIVE_NONE) {
		errno = EAGAIN;
		return -1;
	}
	slot = &drive->slots[number];
	drive->free_slot = slot->next;
	*slot = (struct slot){ .request = *request, .next = DRIVE_NONE };
	if (drive->last_arrival_ns < drive->now_ns)
		drive->last_arrival_ns = drive->now_ns;
	if (slot->request.arrival_ns < drive->last_arrival_ns)
		slot->request.arrival_ns = drive->last_arrival_ns;
	drive->last_arrival_ns = slot->request.arrival_ns;
	slot->request.sector += drive->params.first_sector;
	if (drive->host_last == DRIVE_NONE)
		drive->host_first = number;
	else
		drive->slots[drive->host_last].next = number;
	drive->host_last = number;
	drive->requests++;
	if (slot->request.arrival_ns <= drive->now_ns)
		drive->is_settled = false;
	return 0;
}

/* Takes requests that have arrived into the drive's queue. A flush waits until the queue is empty, and bars it. */
static void admit(struct drive *drive)
{
	while (drive->host_first != DRIVE_NONE && drive->flush == DRIVE_NONE) {
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
		if (drive->host_first == DRIVE_NONE)
			drive->host_last = DRIVE_NONE;
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
			slot->hit = electronics_find_hit(drive, request, &how, &segment);
		}
	}
}

/* Starts all that can start now. */
static void dispatch(struct drive *drive)
{
	admit(drive);
	if (drive->flush == DRIVE_NONE) {
		look_ahead_advance(&drive->ahead, &drive->mechanics, drive->now_ns);
		if (drive->ahead.active != LOOK_AHEAD_NONE && drive->queued) {
			const struct segment *segment = &drive->ahead.segments[drive->ahead.active];

			electronics_mark_hits(drive, segment->low, segment->high);
		}
		if (drive->electronics == DRIVE_NONE)
			electronics_start(drive);
	}
	if (drive->work.stage == IDLE)
		head_start(drive);
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
		return DRIVE_NEVER;
	}
}

/* The end of the flush, once nothing is dirty; DRIVE_NEVER before. */
static int64_t flush_ns(const struct drive *drive)
{
	int64_t end_ns = drive->flush_service.start_ns + drive->flush_service.overhead_ns;

	if (drive->flush == DRIVE_NONE || drive->work.stage != IDLE || drive->dirty.count)
		return DRIVE_NEVER;
	return drive->last_media_ns > end_ns ? drive->last_media_ns : end_ns;
}

/* The next moment at which anything changes, after a dispatch. */
static int64_t next_ns(const struct drive *drive)
{
	int64_t next = earlier(work_ns(drive), flush_ns(drive));

	if (drive->electronics != DRIVE_NONE)
		next = earlier(next, drive->electronics_service.end_ns);
	if (drive->work.stage == IDLE && drive->flush == DRIVE_NONE)
		next = earlier(next, head_idle_from_ns(drive));
	/* an arrival that has come already waits for another's end */
	if (drive->host_first != DRIVE_NONE &&
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
		if (number == DRIVE_NONE)
			head_end_work(drive);
		return;
	}
	tell(drive, event, DRIVE_EVENT_DONE, &work->service);
	head_end_work(drive);
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
		electronics_mark_hits(drive, extent->sector, extent->sector + extent->sectors);
	}
	service->cylinder = drive->head.cylinder;
	tell(drive, event, DRIVE_EVENT_DONE, service);
	drive->electronics = DRIVE_NONE;
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
	drive->flush = DRIVE_NONE;
}

bool drive_step(struct drive *drive, int64_t until_ns, struct drive_event *event)
{
	for (;;) {
		int64_t next;

		dispatch(drive);
		next = next_ns(drive);
		if (next > until_ns || next == DRIVE_NEVER) {
			if (drive->now_ns < until_ns && until_ns != DRIVE_NEVER)
				drive->now_ns = until_ns;
			drive->is_settled = true;
			event->kind = DRIVE_EVENT_NONE;
			return false;
		}
		drive->now_ns = next;
		drive->is_settled = false;
		if (work_ns(drive) <= next)
			step_work(drive, event);
		else if (drive->electronics != DRIVE_NONE &&
			 drive->electronics_service.end_ns <= next)
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

	if (sectors_in_flight(drive))
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
	return (drive->dirty.sectors + sectors_in_flight(drive)) * 512;
}

uint64_t drive_sectors(const struct drive *drive)
{
	return drive->params.sectors;
}

uint32_t drive_cylinders(const struct drive *drive)
{
	return drive->mechanics.geometry.cylinders;
}
