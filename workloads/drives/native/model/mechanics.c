// SPDX-License-Identifier: BSD-2-Clause
#include "mechanics.h"

#include <string.h>

/* splitmix64: neighbouring seeds give unrelated phases */
static uint64_t mix(uint64_t seed)
{
	seed += 0x9e3779b97f4a7c15u;
	seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
	seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
	return seed ^ (seed >> 31);
}

/* The point at or before this distance, or the first. */
static uint32_t find_point(const struct mechanics *mechanics, uint32_t cylinders, uint32_t low,
			   uint32_t high)
{
	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if (mechanics->seeks[middle].cylinders <= cylinders)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void index_seeks(struct mechanics *mechanics)
{
	uint32_t last = mechanics->seeks[mechanics->seek_count - 1].cylinders;

	while ((last >> mechanics->seek_shift) >= MECHANICS_PARTS)
		mechanics->seek_shift++;
	for (uint32_t part = 0; part <= MECHANICS_PARTS; part++)
		mechanics->seek_parts[part] = (uint16_t)find_point(
			mechanics, part << mechanics->seek_shift, 0, mechanics->seek_count);
}

void mechanics_init(struct mechanics *mechanics, const struct drive_params *params, uint64_t seed)
{
	geometry_init(&mechanics->geometry, params);
	memcpy(mechanics->seeks, params->seeks, sizeof(mechanics->seeks));
	mechanics->seek_count = params->seek_count;
	index_seeks(mechanics);
	mechanics->write_settle_ns = params->write_settle_ns;
	mechanics->head_switch_ns = params->head_switch_ns;
	mechanics->phase_ns = (int64_t)(mix(seed) % (uint64_t)mechanics->geometry.revolution_ns);
}

int64_t mechanics_seek_ns(const struct mechanics *mechanics, uint32_t cylinders)
{
	const struct drive_seek *seeks = mechanics->seeks;
	uint32_t last = mechanics->seek_count - 1, part, low, high;

	if (cylinders == 0)
		return 0;
	if (cylinders <= seeks[0].cylinders)
		return seeks[0].ns;
	if (cylinders >= seeks[last].cylinders)
		return seeks[last].ns;
	part = cylinders >> mechanics->seek_shift;
	low = find_point(mechanics, cylinders, mechanics->seek_parts[part],
			 mechanics->seek_parts[part + 1] + 1);
	high = low + 1;
	return seeks[low].ns + (seeks[high].ns - seeks[low].ns) *
				       (int64_t)(cylinders - seeks[low].cylinders) /
				       (int64_t)(seeks[high].cylinders - seeks[low].cylinders);
}

int64_t mechanics_move_ns(const struct mechanics *mechanics, const struct head *head,
			  const struct place *place, bool writes)
{
	uint32_t cylinders = place->cylinder > head->cylinder ? place->cylinder - head->cylinder
							      : head->cylinder - place->cylinder;
	int64_t move_ns = mechanics_seek_ns(mechanics, cylinders);

	/* the switch goes on beside the seek */
	if (place->surface != head->surface && move_ns < mechanics->head_switch_ns)
		move_ns = mechanics->head_switch_ns;
	if (writes && (cylinders || place->surface != head->surface))
		move_ns += mechanics->write_settle_ns;
	return move_ns;
}

int64_t mechanics_turn_ns(const struct mechanics *mechanics, const struct place *place,
			  int64_t at_ns)
{
	const struct geometry *geometry = &mechanics->geometry;
	int64_t turn_ns = (place->track_ns + geometry_arc_ns(geometry, place, place->sector) -
			   at_ns - mechanics->phase_ns) %
			  geometry->revolution_ns;

	return turn_ns < 0 ? turn_ns + geometry->revolution_ns : turn_ns;
}

void mechanics_run(const struct mechanics *mechanics, const struct head *head, int64_t at_ns,
		   uint64_t sector, uint64_t sectors, bool writes, struct run *run)
{
	struct place *place = &run->place;

	geometry_find(&mechanics->geometry, sector, place);
	run->head = (struct head){ place->cylinder, place->surface };
	run->first = place->sector;
	run->sectors = place->sectors_per_track - place->sector;
	if (run->sectors > sectors)
		run->sectors = (uint32_t)sectors;
	run->seek_ns = mechanics_move_ns(mechanics, head, place, writes);
	run->rotation_ns = mechanics_turn_ns(mechanics, place, at_ns + run->seek_ns);
	run->begin_ns = at_ns + run->seek_ns + run->rotation_ns;
	run->end_ns = run->begin_ns +
		      geometry_arc_ns(&mechanics->geometry, place, run->first + run->sectors) -
		      geometry_arc_ns(&mechanics->geometry, place, run->first);
}

void mechanics_pass(const struct mechanics *mechanics, const struct head *head, int64_t at_ns,
		    uint64_t sector, uint64_t sectors, bool writes, struct pass *pass)
{
	struct run run;

	*pass = (struct pass){ .head = *head, .begin_ns = -1, .end_ns = at_ns };
	while (sectors) {
		mechanics_run(mechanics, &pass->head, pass->end_ns, sector, sectors, writes, &run);
		if (pass->begin_ns < 0)
			pass->begin_ns = run.begin_ns;
		pass->head = run.head;
		pass->seek_ns += run.seek_ns;
		pass->rotation_ns += run.rotation_ns;
		pass->transfer_ns += run.end_ns - run.begin_ns;
		pass->end_ns = run.end_ns;
		sector += run.sectors;
		sectors -= run.sectors;
	}
}
