/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a sector is: zones of tracks of one length, cylinder by cylinder from the edge, surface by surface in each. */
#ifndef SEEKMETER_DRIVE_GEOMETRY_H
#define SEEKMETER_DRIVE_GEOMETRY_H

#include "params.h"

struct geometry_zone {
	uint64_t first_sector;
	uint32_t first_cylinder;
	uint32_t sectors_per_track;
};

/* Angles are nanoseconds of a revolution, whole: a sector that follows at once is reached after exactly 0 ns. */
struct geometry {
	struct geometry_zone zones[DRIVE_MOST_ZONES];
	uint32_t zone_count;
	uint32_t surfaces;
	uint32_t cylinders;
	int64_t revolution_ns;
	/* shares of a revolution: whole nanoseconds would add up to a wrong angle over some 10000 cylinders */
	double track_skew;
	double cylinder_step; /* from a cylinder's first track to the next cylinder's */
};

struct place {
	uint32_t cylinder;
	uint32_t surface;
	uint32_t sector; /* in its track */
	uint32_t sectors_per_track;
	int64_t track_ns; /* angle of the track's sector 0 */
};

void geometry_init(struct geometry *geometry, const struct drive_params *params);
void geometry_find(const struct geometry *geometry, uint64_t sector, struct place *place);

/* From the track's sector 0 to this one (the track's length: the whole revolution). */
static inline int64_t geometry_arc_ns(const struct geometry *geometry, const struct place *place,
				      uint32_t sector)
{
	return geometry->revolution_ns * sector / place->sectors_per_track;
}

#endif
