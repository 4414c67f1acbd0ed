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
	geometry->track_skew_ns = llround(params->track_skew * (double)geometry->revolution_ns);
	geometry->cylinder_step_ns =
		geometry->track_skew_ns * (params->surfaces - 1) +
		llround(params->cylinder_skew * (double)geometry->revolution_ns);
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
	place->track_ns = geometry->cylinder_step_ns * place->cylinder +
			  geometry->track_skew_ns * place->surface;
}
