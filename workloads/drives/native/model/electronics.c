// SPDX-License-Identifier: BSD-2-Clause
/* The electronics: writes into the cache, reads from it and from what was read ahead. */
#include "state.h"

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
		else if (sectors_in_flight(drive) && destage->sector <= sector &&
			 sector < destage->sector + destage->sectors)
			sector = destage->sector + destage->sectors;
		else
			return false;
	}
	return true;
}

/* Whether the read's data is in memory now, and where. */
bool electronics_find_hit(const struct drive *drive, const struct drive_request *read,
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
void electronics_mark_hits(struct drive *drive, uint64_t low, uint64_t high)
{
	for (uint32_t i = 0; i < drive->queued; i++) {
		struct slot *slot = &drive->slots[drive->queue[i]];
		const struct drive_request *request = &slot->request;

		if (!slot->busy && request->op == DRIVE_OP_READ && low <= request->sector &&
		    request->sector + request->sectors <= high)
			slot->hit = true;
	}
}

static bool has_room(struct drive *drive, const struct drive_request *write)
{
	uint64_t more =
		write->sectors - extents_overlap(&drive->dirty, write->sector, write->sectors);

	if (drive->dirty.sectors + sectors_in_flight(drive) + more > drive->capacity ||
	    drive->dirty.count + (sectors_in_flight(drive) > 0) >=
		    drive->params.write_cache_extents)
		return false;
	return true;
}

/* A write changes these sectors: what was read of them is old. */
void electronics_forget_read(struct drive *drive, const struct drive_request *write)
{
	uint64_t end = write->sector + write->sectors;

	if (look_ahead_forget(&drive->ahead, write->sector, write->sectors))
		drive->head = drive->ahead.head;
	if (drive->work.segment != LOOK_AHEAD_NONE && write->sector < drive->work.media_end &&
	    end > drive->work.media_sector)
		drive->work.segment = LOOK_AHEAD_NONE;
}

void electronics_start(struct drive *drive)
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
			electronics_forget_read(drive, request);
		} else {
			if (!slot->hit)
				continue;
			slot->hit = electronics_find_hit(drive, request, &how, &segment);
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
