// SPDX-License-Identifier: BSD-2-Clause
#include "extents.h"

#include <stdlib.h>

int extents_init(struct extents *extents, uint32_t most)
{
	extents->all = calloc((size_t)most + 1, sizeof(*extents->all));
	if (!extents->all)
		return -1;
	extents->most = most;
	extents_clear(extents);
	return 0;
}

void extents_free(struct extents *extents)
{
	free(extents->all);
	extents->all = NULL;
}

void extents_clear(struct extents *extents)
{
	extents->all[EXTENTS_NONE] = (struct extent){ .levels = EXTENTS_LEVELS };
	extents->count = 0;
	extents->sectors = 0;
	extents->writes = 0;
	extents->random = 1;
	extents->free = extents->most ? 1 : EXTENTS_NONE;
	for (uint32_t i = 1; i <= extents->most; i++)
		extents->all[i].after[0] = i < extents->most ? i + 1 : EXTENTS_NONE;
}

static uint64_t end_of(const struct extent *extent)
{
	return extent->sector + extent->sectors;
}

/* The last extent of each level that ends at or before the sector. */
static void find_before(const struct extents *extents, uint64_t sector,
			uint32_t before[EXTENTS_LEVELS])
{
	const struct extent *all = extents->all;
	uint32_t at = EXTENTS_NONE;

	for (int level = EXTENTS_LEVELS - 1; level >= 0; level--) {
		uint32_t next;

		while ((next = all[at].after[level]) != EXTENTS_NONE &&
		       end_of(&all[next]) <= sector)
			at = next;
		before[level] = at;
	}
}

uint32_t extents_at(const struct extents *extents, uint64_t sector)
{
	uint32_t before[EXTENTS_LEVELS];

	find_before(extents, sector, before);
	return extents->all[before[0]].after[0];
}

uint64_t extents_overlap(const struct extents *extents, uint64_t sector, uint64_t sectors)
{
	uint64_t end = sector + sectors, overlap = 0;

	for (uint32_t i = extents_at(extents, sector); i != EXTENTS_NONE;
	     i = extents_after(extents, i)) {
		const struct extent *extent = &extents->all[i];
		uint64_t low = extent->sector > sector ? extent->sector : sector;
		uint64_t high = end_of(extent) < end ? end_of(extent) : end;

		if (extent->sector >= end)
			break;
		overlap += high - low;
	}
	return overlap;
}

static void link_age(struct extents *extents, uint32_t extent, uint32_t older)
{
	struct extent *all = extents->all;

	all[extent].older = older;
	all[extent].newer = all[older].newer;
	all[all[older].newer].older = extent;
	all[older].newer = extent;
}

static void unlink_age(struct extents *extents, uint32_t extent)
{
	struct extent *all = extents->all;

	all[all[extent].older].newer = all[extent].newer;
	all[all[extent].newer].older = all[extent].older;
}

/* One level more with a quarter's chance; xorshift, so that every run makes the same list. */
static uint32_t choose_levels(struct extents *extents)
{
	uint32_t levels = 1, bits;

	extents->random ^= extents->random << 13;
	extents->random ^= extents->random >> 17;
	extents->random ^= extents->random << 5;
	for (bits = extents->random; levels < EXTENTS_LEVELS && (bits & 3) == 0; bits >>= 2)
		levels++;
	return levels;
}

/* A new extent behind those in before, the newest by age. There is a free one. */
static uint32_t insert(struct extents *extents, const uint32_t before[EXTENTS_LEVELS],
		       uint64_t sector, uint32_t sectors)
{
	struct extent *all = extents->all;
	uint32_t made = extents->free;

	extents->free = all[made].after[0];
	extents->count++;
	all[made] = (struct extent){ .sector = sector, .sectors = sectors, .before = before[0] };
	all[made].levels = choose_levels(extents);
	for (uint32_t level = 0; level < all[made].levels; level++) {
		all[made].after[level] = all[before[level]].after[level];
		all[before[level]].after[level] = made;
	}
	all[all[made].after[0]].before = made;
	link_age(extents, made, all[EXTENTS_NONE].older);
	return made;
}

/* Removes the extent behind those in before. */
static void delete (struct extents *extents, const uint32_t before[EXTENTS_LEVELS])
{
	struct extent *all = extents->all;
	uint32_t gone = all[before[0]].after[0];

	for (uint32_t level = 0; level < all[gone].levels; level++)
		all[before[level]].after[level] = all[gone].after[level];
	all[all[gone].after[0]].before = before[0];
	unlink_age(extents, gone);
	all[gone].after[0] = extents->free;
	extents->free = gone;
	extents->count--;
}

bool extents_add(struct extents *extents, uint64_t sector, uint32_t sectors)
{
	struct extent *all = extents->all;
	uint64_t end = sector + sectors, low = sector, high = end;
	uint32_t before[EXTENTS_LEVELS], first;

	/* an extent that ends where this one begins is its neighbour, so one sector further back */
	find_before(extents, sector ? sector - 1 : 0, before);
	first = all[before[0]].after[0];
	if (first == EXTENTS_NONE || all[first].sector > end) {
		if (extents->free == EXTENTS_NONE)
			return false;
		first = insert(extents, before, sector, sectors);
		all[first].age = extents->writes++;
		extents->sectors += sectors;
		return true;
	}
	/* The first that touches grows over all others that touch, and has the age of the oldest of them. */
	low = all[first].sector < low ? all[first].sector : low;
	high = end_of(&all[first]) > high ? end_of(&all[first]) : high;
	extents->sectors -= all[first].sectors;
	/* levels at which first stands, so that what follows it hangs on it */
	for (uint32_t level = 0; level < all[first].levels; level++)
		before[level] = first;
	for (;;) {
		uint32_t next = all[first].after[0];

		if (next == EXTENTS_NONE || all[next].sector > end)
			break;
		high = end_of(&all[next]) > high ? end_of(&all[next]) : high;
		extents->sectors -= all[next].sectors;
		if (all[next].age < all[first].age) {
			unlink_age(extents, first);
			link_age(extents, first, next);
			all[first].age = all[next].age;
		}
		delete (extents, before);
	}
	all[first].sector = low;
	all[first].sectors = (uint32_t)(high - low);
	extents->sectors += high - low;
	extents->writes++;
	return true;
}

void extents_remove(struct extents *extents, uint64_t sector, uint64_t sectors)
{
	struct extent *all = extents->all;
	uint64_t end = sector + sectors;
	uint32_t before[EXTENTS_LEVELS];

	find_before(extents, sector, before);
	for (;;) {
		uint32_t at = all[before[0]].after[0], rest;
		uint64_t high;

		if (at == EXTENTS_NONE || all[at].sector >= end)
			return;
		high = end_of(&all[at]);
		if (all[at].sector < sector && high > end) {
			/* the last free one is for extents_add() */
			if (extents->count + 1 >= extents->most)
				return;
			all[at].sectors = (uint32_t)(sector - all[at].sector);
			extents->sectors -= sectors;
			find_before(extents, end, before);
			rest = insert(extents, before, end, (uint32_t)(high - end));
			unlink_age(extents, rest);
			link_age(extents, rest, at);
			all[rest].age = all[at].age;
			return;
		}
		if (all[at].sector < sector) {
			all[at].sectors = (uint32_t)(sector - all[at].sector);
			extents->sectors -= high - sector;
			find_before(extents, sector, before);
		} else if (high > end) {
			/* the extent stays where it is in the order */
			extents->sectors -= end - all[at].sector;
			all[at].sectors = (uint32_t)(high - end);
			all[at].sector = end;
			return;
		} else {
			extents->sectors -= all[at].sectors;
			delete (extents, before);
		}
	}
}
