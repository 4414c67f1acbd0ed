// SPDX-License-Identifier: BSD-2-Clause
/*
 * Chains of one hash in a pool that doubles when full, up to MAX_BIOS.
 *
 * An open bio of at most 2^level sectors is filed under its first sector >> level. So a bio that a sector lies in is
 * filed, at its level, under that sector >> level or the place before it: two looks a level.
 */
#include "bios.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 1024
#define EXACT	   BIO_LEVELS /* the level of those that are found by their first sector alone */

/* A flush has no length; it still lies at its sector. */
static uint64_t sectors_of(uint32_t bytes)
{
	return bytes >= SECTOR_BYTES ? bytes / SECTOR_BYTES : 1;
}

static uint8_t level_of(uint32_t bytes)
{
	uint8_t level = 0;

	while (1ULL << level < sectors_of(bytes))
		level++;
	return level;
}

static uint64_t place_of(uint64_t sector, uint8_t level)
{
	return level == EXACT ? sector : sector >> level;
}

static uint32_t hash(const struct bios *bios, uint32_t device, uint64_t place, uint8_t level)
{
	uint64_t mixed =
		(place ^ (uint64_t)device << 40 ^ (uint64_t)level << 34) * 0x9E3779B97F4A7C15ULL;

	return (uint32_t)(mixed >> 32) & (bios->room - 1);
}

static uint32_t *head_of(struct bios *bios, const struct bio *bio)
{
	return &bios->heads[hash(bios, bio->device, place_of(bio->sector, bio->level), bio->level)];
}

int bios_init(struct bios *bios)
{
	memset(bios, 0, sizeof(*bios));
	bios->room = FIRST_ROOM;
	bios->used = 1;
	bios->pool = calloc(bios->room, sizeof(*bios->pool));
	bios->heads = calloc(bios->room, sizeof(*bios->heads));
	return bios->pool && bios->heads ? 0 : -1;
}

void bios_free(struct bios *bios)
{
	free(bios->pool);
	free(bios->heads);
}

struct bio *bios_at(struct bios *bios, uint32_t device, uint64_t sector, uint32_t kind,
		    enum bio_state state, uint32_t thread, uint32_t bytes)
{
	struct bio *newest = NULL, *alike = NULL;
	uint32_t at;

	if (state == BIO_SENT && !bios->sent)
		return NULL;
	at = bios->heads[hash(bios, device, sector, EXACT)];
	for (; at; at = bios->pool[at].next) {
		struct bio *bio = &bios->pool[at];

		if (bio->sector != sector || bio->device != device || bio->kind != kind ||
		    bio->state != state || (bytes && bio->bytes != bytes))
			continue;
		newest = bio;
		if (bio->thread == thread)
			alike = bio;
	}
	return alike ? alike : newest;
}

struct wanted {
	uint32_t device, kind, thread;
	uint64_t sector; /* lies in it */
	uint64_t start;	 /* ending: it is best if it begins here */
	bool ending;	 /* `sector` is its last */
};

static bool is_wanted(const struct bio *bio, const struct wanted *wanted)
{
	uint64_t end = bio->sector + sectors_of(bio->bytes);

	return bio->state == BIO_OPEN && bio->device == wanted->device &&
	       bio->kind == wanted->kind && bio->sector <= wanted->sector && wanted->sector < end &&
	       (!wanted->ending || wanted->sector + 1 == end);
}

/* Is `bio` better than the one found so far? */
static bool is_better(const struct bio *bio, const struct bio *found, const struct wanted *wanted)
{
	bool good, was_good;

	if (!found)
		return true;
	if (wanted->ending) {
		good = bio->sector == wanted->start;
		was_good = found->sector == wanted->start;
		return good != was_good ? good : bio->id < found->id;
	}
	good = bio->thread == wanted->thread;
	was_good = found->thread == wanted->thread;
	if (good != was_good)
		return good;
	return good ? bio->id > found->id : bio->id < found->id;
}

static struct bio *search(struct bios *bios, const struct wanted *wanted)
{
	struct bio *found = NULL;

	for (uint8_t level = 0; level < BIO_LEVELS; level++) {
		uint64_t place = wanted->sector >> level;

		if (!bios->of_level[level])
			continue;
		for (int back = 0; back < 2 && place >= (uint64_t)back; back++) {
			uint32_t at = bios->heads[hash(bios, wanted->device, place - back, level)];

			for (; at; at = bios->pool[at].next) {
				struct bio *bio = &bios->pool[at];

				if (bio->level == level && is_wanted(bio, wanted) &&
				    is_better(bio, found, wanted))
					found = bio;
			}
		}
	}
	return found;
}

struct bio *bios_covering(struct bios *bios, uint32_t device, uint64_t sector, uint32_t kind,
			  uint32_t thread)
{
	struct wanted wanted = {
		.device = device, .kind = kind, .thread = thread, .sector = sector
	};

	return search(bios, &wanted);
}

struct bio *bios_ending(struct bios *bios, uint32_t device, uint64_t end, uint32_t kind,
			uint64_t start)
{
	struct wanted wanted = {
		.device = device, .kind = kind, .sector = end - 1, .start = start, .ending = true
	};

	return end ? search(bios, &wanted) : NULL;
}

struct bio *bios_by_id(struct bios *bios, uint32_t device, uint64_t sector, uint64_t id)
{
	for (uint8_t level = 0; level < BIO_LEVELS; level++) {
		uint32_t at;

		if (!bios->of_level[level])
			continue;
		at = bios->heads[hash(bios, device, sector >> level, level)];
		for (; at; at = bios->pool[at].next)
			if (bios->pool[at].id == id && bios->pool[at].state == BIO_OPEN)
				return &bios->pool[at];
	}
	return NULL;
}

/* Puts a bio of the pool behind those of its hash. */
static void link_last(struct bios *bios, uint32_t at)
{
	uint32_t *link = head_of(bios, &bios->pool[at]);

	while (*link)
		link = &bios->pool[*link].next;
	*link = at;
	bios->pool[at].next = 0;
}

static int grow(struct bios *bios)
{
	uint32_t room = bios->room * 2, *heads;
	struct bio *pool = realloc(bios->pool, room * sizeof(*pool));

	if (!pool)
		return -1;
	bios->pool = pool;
	heads = calloc(room, sizeof(*heads));
	if (!heads)
		return -1;
	free(bios->heads);
	bios->heads = heads;
	bios->room = room;
	for (uint32_t at = 1; at < bios->used; at++)
		if (pool[at].state != BIO_FREE)
			link_last(bios, at);
	return 0;
}

static void count(struct bios *bios, const struct bio *bio, int by)
{
	if (bio->state == BIO_SENT)
		bios->sent += by;
	else if (bio->state == BIO_OPEN)
		bios->of_level[bio->level] += by;
}

void bios_make_part(struct bios *bios, struct bio *bio)
{
	bio->state = BIO_PART;
	bios->sent--;
}

void bios_remove(struct bios *bios, struct bio *bio)
{
	uint32_t at = bio - bios->pool, *link = head_of(bios, bio);

	while (*link != at)
		link = &bios->pool[*link].next;
	*link = bio->next;
	count(bios, bio, -1);
	bio->state = BIO_FREE;
	bio->next = bios->free;
	bios->free = at;
}

/* The pool is filled in turn, so the bio in turn is about the oldest. */
static void forget_oldest(struct bios *bios, struct bio *forgotten)
{
	uint32_t at;

	do {
		at = bios->oldest + 1 < bios->used ? bios->oldest + 1 : 1;
		bios->oldest = at;
	} while (bios->pool[at].state == BIO_FREE);
	*forgotten = bios->pool[at];
	bios_remove(bios, &bios->pool[at]);
}

/* Makes room in a chain that a trace made too long. */
static void bound_chain(struct bios *bios, const struct bio *bio, struct bio *forgotten)
{
	uint32_t first = *head_of(bios, bio), length = 0;

	for (uint32_t at = first; at; at = bios->pool[at].next)
		length++;
	if (length < MAX_ALIKE)
		return;
	*forgotten = bios->pool[first];
	bios_remove(bios, &bios->pool[first]);
}

struct bio *bios_add(struct bios *bios, const struct bio *bio, struct bio *forgotten)
{
	struct bio *added;
	struct bio copy = *bio;
	uint32_t at;

	copy.level = copy.state == BIO_OPEN ? level_of(copy.bytes) : EXACT;
	forgotten->state = BIO_FREE;
	bound_chain(bios, &copy, forgotten);
	if (!bios->free && bios->used == bios->room) {
		if (bios->room >= MAX_BIOS)
			forget_oldest(bios, forgotten);
		else if (grow(bios))
			return NULL;
	}
	if (bios->free) {
		at = bios->free;
		bios->free = bios->pool[at].next;
	} else {
		at = bios->used++;
	}
	added = &bios->pool[at];
	*added = copy;
	link_last(bios, at);
	count(bios, added, 1);
	return added;
}
