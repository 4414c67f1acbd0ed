// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which struct an object is that its slab cache says nothing of, judged by all call paths that met at its locks.
 *
 * An object is one struct, so what is found at one of its locks holds for the others: the answer found nearest to a call
 * counts, and two as near that differ are none. An object freed and another made in its place are taken for the
 * same.
 */
#include "kmalloc.h"

#include <stdlib.h>
#include <string.h>

struct found_object {
	uint64_t begin; /* 0: the place is free */
	struct type type;
	int distance; /* see callers_lock(); -1: not known */
	bool disputed;
};

static struct found_object *table; /* an open hash table */
static size_t room, used;

static struct found_object *place_of(struct found_object *in, size_t size, uint64_t begin)
{
	size_t at = (begin * 0x9E3779B97F4A7C15ULL) >> 32;

	while (in[at & (size - 1)].begin && in[at & (size - 1)].begin != begin)
		at++;
	return &in[at & (size - 1)];
}

static bool grow(void)
{
	size_t bigger = room ? room * 2 : 256;
	struct found_object *fresh = calloc(bigger, sizeof(*fresh));

	if (!fresh)
		return false;
	for (size_t i = 0; i < room; i++)
		if (table[i].begin)
			*place_of(fresh, bigger, table[i].begin) = table[i];
	free(table);
	table = fresh;
	room = bigger;
	return true;
}

static void hear(struct found_object *known, struct type type, int distance)
{
	if (known->distance < 0 || distance < known->distance) {
		known->type = type;
		known->distance = distance;
		known->disputed = false;
	} else if (distance == known->distance &&
		   strcmp(types_name(known->type), types_name(type))) {
		known->disputed = true;
	}
}

enum callers_answer kmalloc_lock(uint64_t lock, const struct lock_object *object, int kind,
				 const uint64_t *frames, struct lock_member *found)
{
	struct found_object *known;
	enum callers_answer answer;
	int distance;

	if (!object->slab[0] || (used * 2 >= room && !grow()))
		return CALLERS_NO;
	known = place_of(table, room, lock - object->offset);
	if (!known->begin) {
		*known = (struct found_object){ .begin = lock - object->offset, .distance = -1 };
		used++;
	}
	if (frames) {
		answer = callers_lock(object, kind, frames, found, &distance);
		if (answer == CALLERS_LATER)
			return answer;
		if (answer == CALLERS_YES)
			hear(known, found->outer, distance);
	}
	if (known->distance < 0 || known->disputed)
		return CALLERS_NO;
	return member_lock_at(known->type, object->offset, kind, found) ||
			       member_lock_at(known->type, object->other_offset, kind, found)
		       ? CALLERS_YES
		       : CALLERS_NO;
}

void kmalloc_unload(void)
{
	callers_unload();
	free(table);
	table = NULL;
	room = used = 0;
}
