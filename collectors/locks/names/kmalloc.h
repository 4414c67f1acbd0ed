/* SPDX-License-Identifier: BSD-2-Clause */
/* The struct of a kmalloc() object, from all call paths that waited for its locks. */
#ifndef SEEKMETER_LOCK_KMALLOC_H
#define SEEKMETER_LOCK_KMALLOC_H

#include "callers.h"
#include "member.h"
#include "common/records.h"

/*
 * The member of the object's struct that is this lock. frames: a call path that waited for the lock, as in callers.h;
 * NULL: only earlier call paths count. CALLERS_NO: no struct fits, or call paths disagree.
 */
enum callers_answer kmalloc_lock(uint64_t lock, const struct lock_object *slab_object, int kind,
				 const uint64_t *frames, struct lock_member *member);
void kmalloc_unload(void);

#endif
