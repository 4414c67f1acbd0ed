// SPDX-License-Identifier: BSD-2-Clause
#include "look_ahead.h"

#include <stdlib.h>
#include <string.h>

int look_ahead_init(struct look_ahead *ahead, uint32_t count, uint32_t segment_sectors,
		    uint64_t end)
{
	ahead->segments = calloc(count ? count : 1, sizeof(*ahead->segments));
	if (!ahead->segments)
		return -1;
	ahead->count = count;
	ahead->segment_sectors = segment_sectors;
	ahead->end = end;
	look_ahead_clear(ahead);
	return 0;
}

void look_ahead_free(struct look_ahead *ahead)
{
	free(ahead->segments);
	ahead->segments = NULL;
}

void look_ahead_clear(struct look_ahead *ahead)
{
	memset(ahead->segments, 0, (ahead->count ? ahead->count : 1) * sizeof(*ahead->segments));
	ahead->uses = 0;
	ahead->active = LOOK_AHEAD_NONE;
}

uint32_t look_ahead_find(const struct look_ahead *ahead, uint64_t sector)
{
	for (uint32_t i = 0; i < ahead->count; i++) {
		const struct segment *segment = &ahead->segments[i];

		if (segment->low < segment->high && segment->low <= sector &&
		    sector <= segment->high)
			return i;
	}
	return LOOK_AHEAD_NONE;
}

uint32_t look_ahead_take(struct look_ahead *ahead, uint64_t sector)
{
	uint32_t taken = look_ahead_find(ahead, sector);

	if (taken == LOOK_AHEAD_NONE) {
		taken = 0;
		for (uint32_t i = 1; i < ahead->count; i++) {
			if (ahead->segments[i].used < ahead->segments[taken].used)
				taken = i;
		}
		ahead->segments[taken].low = ahead->segments[taken].high = sector;
	}
	ahead->segments[taken].used = ++ahead->uses;
	return taken;
}

/* A segment is a ring: what is read in excess of its size replaces its beginning. */
static void fill(const struct look_ahead *ahead, struct segment *segment, uint64_t high)
{
	segment->high = high;
	if (high - segment->low > ahead->segment_sectors)
		segment->low = high - ahead->segment_sectors;
}

static uint64_t limit_for(const struct look_ahead *ahead, uint64_t end)
{
	uint64_t limit = end + ahead->segment_sectors;

	return limit < ahead->end ? limit : ahead->end;
}

void look_ahead_begin(struct look_ahead *ahead, uint32_t segment, uint64_t end, int64_t at_ns,
		      const struct head *head)
{
	fill(ahead, &ahead->segments[segment], end);
	ahead->active = segment;
	ahead->limit = limit_for(ahead, end);
	ahead->time_ns = at_ns;
	ahead->head = *head;
}

void look_ahead_keep(struct look_ahead *ahead, uint32_t before)
{
	struct segment *segment = &ahead->segments[ahead->active];
	uint64_t room = ahead->segment_sectors - (segment->high - segment->low);

	segment->low -= before < room ? before : room;
	if (ahead->limit > segment->low + ahead->segment_sectors)
		ahead->limit = segment->low + ahead->segment_sectors;
}

void look_ahead_extend(struct look_ahead *ahead, uint64_t end, int64_t at_ns)
{
	uint64_t limit = limit_for(ahead, end);

	if (limit <= ahead->limit)
		return;
	/* a full segment has stopped the head: the platter has turned since then */
	if (ahead->segments[ahead->active].high == ahead->limit && ahead->time_ns < at_ns)
		ahead->time_ns = at_ns;
	ahead->limit = limit;
}

/* Whole sectors of the run that have passed the head at this time. */
static uint32_t passed(const struct mechanics *mechanics, const struct run *run, int64_t at_ns)
{
	const struct geometry *geometry = &mechanics->geometry;
	int64_t arc_ns = geometry_arc_ns(geometry, &run->place, run->first) + at_ns - run->begin_ns;
	uint32_t sector;

	if (at_ns < run->begin_ns)
		return 0;
	if (at_ns >= run->end_ns)
		return run->sectors;
	sector = (uint32_t)(arc_ns * run->place.sectors_per_track / geometry->revolution_ns);
	/* the arc of a sector is rounded down: the division may be one short */
	if (geometry_arc_ns(geometry, &run->place, sector + 1) <= arc_ns)
		sector++;
	return sector - run->first;
}

void look_ahead_advance(struct look_ahead *ahead, const struct mechanics *mechanics, int64_t at_ns)
{
	struct segment *segment;

	if (ahead->active == LOOK_AHEAD_NONE)
		return;
	segment = &ahead->segments[ahead->active];
	while (segment->high < ahead->limit && ahead->time_ns < at_ns) {
		struct run run;
		uint32_t sectors;

		mechanics_run(mechanics, &ahead->head, ahead->time_ns, segment->high,
			      ahead->limit - segment->high, false, &run);
		sectors = passed(mechanics, &run, at_ns);
		if (sectors == 0)
			return;
		ahead->head = run.head;
		ahead->time_ns =
			run.begin_ns +
			geometry_arc_ns(&mechanics->geometry, &run.place, run.first + sectors) -
			geometry_arc_ns(&mechanics->geometry, &run.place, run.first);
		fill(ahead, segment, segment->high + sectors);
		if (sectors < run.sectors)
			return;
	}
}

int64_t look_ahead_ready_ns(const struct look_ahead *ahead, const struct mechanics *mechanics,
			    uint64_t end)
{
	uint64_t high = ahead->segments[ahead->active].high;
	struct pass pass;

	if (end <= high)
		return ahead->time_ns;
	mechanics_pass(mechanics, &ahead->head, ahead->time_ns, high, end - high, false, &pass);
	return pass.end_ns;
}

bool look_ahead_forget(struct look_ahead *ahead, uint64_t sector, uint64_t sectors)
{
	bool is_stopped = false;

	for (uint32_t i = 0; i < ahead->count; i++) {
		struct segment *segment = &ahead->segments[i];

		if (sector >= segment->high || sector + sectors <= segment->low)
			continue;
		segment->low = segment->high = 0;
		segment->used = 0;
		if (ahead->active == i) {
			ahead->active = LOOK_AHEAD_NONE;
			is_stopped = true;
		}
	}
	return is_stopped;
}
