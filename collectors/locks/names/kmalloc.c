// SPDX-License-Identifier: BSD-2-Clause
/*
 * The struct of a kmalloc() object, from all call paths that waited for its locks.
 *
 * An object is one struct, so the struct found for one of its locks holds for the others. The answer nearest to a call
 * counts; two different answers at the same distance are no answer. An object and a later object at the same address
 * are not distinguished.
 */
#include "kmalloc.h"

#include <string.h>

#include "recorder/hash.h"

struct typed_object {
	uint64_t begin; /* address */
	struct type type;
	int distance; /* see callers_lock(); -1: type not known */
	bool disputed;
};

static struct hash objects = HASH(struct typed_object);

static void add_answer(struct typed_object *object, struct type type, int distance)
{
	if (object->distance < 0 || distance < object->distance) {
		object->type = type;
		object->distance = distance;
		object->disputed = false;
	} else if (distance == object->distance &&
		   strcmp(types_name(object->type), types_name(type))) {
		object->disputed = true;
	}
}

enum callers_answer kmalloc_lock(uint64_t lock, const struct lock_object *slab_object, int kind,
				 const uint64_t *frames, struct lock_member *member)
{
	struct typed_object *object;
	enum callers_answer answer;
	int distance;
	bool added;

	if (!slab_object->slab[0])
		return CALLERS_NO;
	object = hash_add(&objects, lock - slab_object->offset, &added);
	if (!object)
		return CALLERS_NO;
	if (added)
		object->distance = -1;
	if (frames) {
		answer = callers_lock(slab_object, kind, frames, member, &distance);
		if (answer == CALLERS_LATER)
			return answer;
		if (answer == CALLERS_YES)
			add_answer(object, member->outer, distance);
	}
	if (object->distance < 0 || object->disputed)
		return CALLERS_NO;
	return member_lock_at(object->type, slab_object->offset, kind, member) ||
			       member_lock_at(object->type, slab_object->other_offset, kind, member)
		       ? CALLERS_YES
		       : CALLERS_NO;
}

void kmalloc_unload(void)
{
	callers_unload();
	hash_clear(&objects);
}
