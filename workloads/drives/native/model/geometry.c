// SPDX-License-Identifier: BSD-2-Clause
#include "geometry.h"

#include <math.h>

void geometry_init(struct geometry *geometry, const struct drive_params *params)
{
	uint64_t sector = 0;
	uint32_t cylinder = 0;

	geometry->zone_count = params->zone_count;
	geometry->surfaces = params->surfaces;
	geometry->revolution_ns = llround(60e9 / params->rpm);
	geometry->track_skew = params->track_skew;
	geometry->cylinder_step =
		params->track_skew * (params->surfaces - 1) + params->cylinder_skew;
	for (uint32_t i = 0; i < params->zone_count; i++) {
		const struct drive_zone *zone = &params->zones[i];

		geometry->zones[i] = (struct geometry_zone){
			.first_sector = sector,
			.first_cylinder = cylinder,
			.sectors_per_track = zone->sectors_per_track,
		};
		sector += (uint64_t)(zone->last_cylinder + 1 - cylinder) * params->surfaces *
			  zone->sectors_per_track;
		cylinder = zone->last_cylinder + 1;
	}
	geometry->cylinders = cylinder;
}

void geometry_find(const struct geometry *geometry, uint64_t sector, struct place *place)
{
	uint32_t low = 0, high = geometry->zone_count;
	const struct geometry_zone *zone;
	uint64_t offset, track;
	double turns;

	while (high - low > 1) {
		uint32_t middle = (low + high) / 2;

		if (geometry->zones[middle].first_sector <= sector)
			low = middle;
		else
			high = middle;
	}
	zone = &geometry->zones[low];
	offset = sector - zone->first_sector;
	track = offset / zone->sectors_per_track;
	place->sector = (uint32_t)(offset - track * zone->sectors_per_track);
	place->sectors_per_track = zone->sectors_per_track;
	place->cylinder = zone->first_cylinder + (uint32_t)(track / geometry->surfaces);
	place->surface = (uint32_t)(track % geometry->surfaces);
	turns = geometry->cylinder_step * place->cylinder + geometry->track_skew * place->surface;
	place->track_ns =
		(int64_t)((turns - (double)(int64_t)turns) * (double)geometry->revolution_ns);
}
