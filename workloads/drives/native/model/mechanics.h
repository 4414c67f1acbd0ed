/* SPDX-License-Identifier: BSD-2-Clause */
/* The arm and the platter: how long the head takes to a sector, and over a row of sectors. */
#ifndef SEEKMETER_DRIVE_MECHANICS_H
#define SEEKMETER_DRIVE_MECHANICS_H

#include "geometry.h"

/* Parts of the table of seeks */
#define MECHANICS_PARTS 1024

struct head {
	uint32_t cylinder;
	uint32_t surface;
};

struct mechanics {
	struct geometry geometry;
	struct drive_seek seeks[DRIVE_MOST_SEEKS];
	uint32_t seek_count;
	/* the last point at or before the beginning of each of equal parts of the distances: the search begins there */
	uint16_t seek_parts[MECHANICS_PARTS + 1];
	uint32_t seek_shift;
	int64_t write_settle_ns;
	int64_t head_switch_ns;
	int64_t phase_ns; /* angle of the platter at time 0 */
};

/* Sectors of one track, passed in one go. */
struct run {
	struct head head; /* over this track */
	uint32_t sectors;
	uint32_t first; /* in the track */
	struct place place;
	int64_t seek_ns; /* with head switch and settling */
	int64_t rotation_ns;
	int64_t begin_ns; /* the first sector's beginning is below the head */
	int64_t end_ns;
};

/* Many runs. */
struct pass {
	struct head head; /* at the end */
	int64_t seek_ns;
	int64_t rotation_ns;
	int64_t transfer_ns;
	int64_t begin_ns; /* of the first run */
	int64_t end_ns;
};

void mechanics_init(struct mechanics *mechanics, const struct drive_params *params, uint64_t seed);
int64_t mechanics_seek_ns(const struct mechanics *mechanics, uint32_t cylinders);

/* Time of the arm's movement to a place. */
int64_t mechanics_move_ns(const struct mechanics *mechanics, const struct head *head,
			  const struct place *place, bool writes);

/* From then until the place is below the head, which is over its track: 0 to below a revolution. */
int64_t mechanics_turn_ns(const struct mechanics *mechanics, const struct place *place,
			  int64_t at_ns);

/* The first run of these sectors, for a head that is free from at_ns on. */
void mechanics_run(const struct mechanics *mechanics, const struct head *head, int64_t at_ns,
		   uint64_t sector, uint64_t sectors, bool writes, struct run *run);

/* All sectors, track by track. */
void mechanics_pass(const struct mechanics *mechanics, const struct head *head, int64_t at_ns,
		    uint64_t sector, uint64_t sectors, bool writes, struct pass *pass);

#endif
