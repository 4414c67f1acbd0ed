/* SPDX-License-Identifier: BSD-2-Clause */
/* Which struct an object is that its slab cache says nothing of, judged by all call paths that met at its locks. */
#ifndef SEEKMETER_LOCK_KMALLOC_H
#define SEEKMETER_LOCK_KMALLOC_H

#include "callers.h"
#include "member.h"
#include "common/records.h"

/*
 * frames: a call path that waited for the lock, as callers.h has it; NULL: only what is known already. No: no
 * struct, or call paths disagree.
 */
enum callers_answer kmalloc_lock(uint64_t lock, const struct lock_object *object, int kind,
				 const uint64_t *frames, struct lock_member *found);
void kmalloc_unload(void);

#endif
