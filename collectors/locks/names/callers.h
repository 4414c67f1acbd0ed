/* SPDX-License-Identifier: BSD-2-Clause */
/* The struct that a lock lies in, from the functions on the call path that waits for it. */
#ifndef SEEKMETER_LOCK_CALLERS_H
#define SEEKMETER_LOCK_CALLERS_H

#include "member.h"
#include "common/records.h"

enum callers_answer {
	CALLERS_NO, /* no struct fits, or several as near */
	CALLERS_YES,
	CALLERS_LATER, /* the deadline is over: the same call made again goes on where this one stopped */
};

/* Searches that are new begin until then; at least one is made after each call of this. */
void callers_set_deadline(uint64_t ns);
/*
 * The member that is the lock. frames: return addresses, innermost first, 0 after the last. *distance: of the struct from
 * the call, in frames and pointers; of two answers the nearer is the better.
 */
enum callers_answer callers_lock(const struct lock_object *object, int kind, const uint64_t *frames,
				 struct lock_member *member, int *distance);
void callers_unload(void);

#endif
