/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The write cache's dirty sectors: extents by position, neighbours merged, so that the nearest to the head are found
 * without a scan of all. A skip list in memory that is allocated once.
 */
#ifndef SEEKMETER_DRIVE_EXTENTS_H
#define SEEKMETER_DRIVE_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#define EXTENTS_LEVELS 8
#define EXTENTS_NONE   0 /* the list's head, too: no extent has this number */

struct extent {
	uint64_t sector;
	uint64_t age; /* number of the write that made its oldest part */
	uint32_t sectors;
	uint32_t before;
	uint32_t older, newer;
	uint32_t levels;
	uint32_t after
		[EXTENTS_LEVELS]; /* [0]: the next by position; of a free extent: the next free one */
};

struct extents {
	struct extent *all;
	uint32_t most;
	uint32_t count;
	uint32_t free;
	uint32_t random;
	uint64_t writes;
	uint64_t sectors; /* dirty, of all */
};

/* 0, or -1 with errno ENOMEM. */
int extents_init(struct extents *extents, uint32_t most);
void extents_free(struct extents *extents);
void extents_clear(struct extents *extents);

/* The first extent that ends beyond this sector, or EXTENTS_NONE. */
uint32_t extents_at(const struct extents *extents, uint64_t sector);

/* The neighbours by position, and the oldest and the next younger one; EXTENTS_NONE: no more. */
static inline uint32_t extents_after(const struct extents *extents, uint32_t extent)
{
	return extents->all[extent].after[0];
}

static inline uint32_t extents_before(const struct extents *extents, uint32_t extent)
{
	return extents->all[extent].before;
}

static inline uint32_t extents_oldest(const struct extents *extents)
{
	return extents->all[EXTENTS_NONE].newer;
}

static inline uint32_t extents_newer(const struct extents *extents, uint32_t extent)
{
	return extents->all[extent].newer;
}

/* How many of these sectors are dirty. */
uint64_t extents_overlap(const struct extents *extents, uint64_t sector, uint64_t sectors);

/* Makes these sectors dirty. False: no extent is left for them, and nothing has changed. */
bool extents_add(struct extents *extents, uint64_t sector, uint32_t sectors);

/* Makes them clean. A part that would need one extent more than there are stays dirty. */
void extents_remove(struct extents *extents, uint64_t sector, uint64_t sectors);

#endif
