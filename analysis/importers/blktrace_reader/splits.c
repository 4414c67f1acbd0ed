// SPDX-License-Identifier: BSD-2-Clause
/* Open addressing; at most half of the room is used. */
#include "splits.h"

#include <stdlib.h>

#define FIRST_ROOM 1024

/* The place of a sector: it is there, or would be. */
static struct split *place_of(const struct splits *splits, uint32_t device, uint64_t sector)
{
	uint64_t mixed = (sector ^ (uint64_t)device << 40) * 0x9E3779B97F4A7C15ULL;
	uint32_t at = (uint32_t)(mixed >> 32) & (splits->room - 1);

	while (splits->table[at].used &&
	       (splits->table[at].sector != sector || splits->table[at].device != device))
		at = (at + 1) & (splits->room - 1);
	return &splits->table[at];
}

static int grow(struct splits *splits)
{
	struct splits larger = { .room = splits->room ? splits->room * 2 : FIRST_ROOM };

	larger.table = calloc(larger.room, sizeof(*larger.table));
	if (!larger.table)
		return -1;
	larger.count = splits->count;
	for (uint32_t at = 0; at < splits->room; at++) {
		const struct split *split = &splits->table[at];

		if (split->used)
			*place_of(&larger, split->device, split->sector) = *split;
	}
	free(splits->table);
	*splits = larger;
	return 0;
}

/* The first that is known of a sector stays. */
static int remember(struct splits *splits, uint32_t device, uint64_t sector, uint64_t root)
{
	struct split *place;

	if (splits->count >= splits->room / 2 && splits->count < MAX_SPLITS && grow(splits))
		return -1;
	place = place_of(splits, device, sector);
	if (place->used || splits->count == MAX_SPLITS)
		return 0;
	*place = (struct split){ .sector = sector, .root = root, .device = device, .used = true };
	splits->count++;
	return 0;
}

int splits_add(struct splits *splits, uint32_t device, uint64_t sector, uint64_t at)
{
	uint64_t root = splits_root(splits, device, sector);

	return remember(splits, device, sector, root) || remember(splits, device, at, root) ? -1
											    : 0;
}

uint64_t splits_root(const struct splits *splits, uint32_t device, uint64_t sector)
{
	const struct split *place;

	if (!splits->count)
		return sector;
	place = place_of(splits, device, sector);
	return place->used ? place->root : sector;
}

void splits_free(struct splits *splits)
{
	free(splits->table);
}
