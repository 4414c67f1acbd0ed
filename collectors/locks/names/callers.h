/* SPDX-License-Identifier: BSD-2-Clause */
/* Which struct a lock is in, judged by the functions that wait for it. */
#ifndef SEEKMETER_LOCK_CALLERS_H
#define SEEKMETER_LOCK_CALLERS_H

#include "member.h"
#include "common/records.h"

enum callers_answer {
	CALLERS_NO, /* no struct, or several as likely */
	CALLERS_YES,
	CALLERS_LATER, /* the turn is over: the same question goes on where this one stopped */
};

/* Until when looking at functions that are new may go on; at least one is looked at in a turn. */
void callers_turn(uint64_t until_ns);
/*
 * frames: return addresses, innermost first, 0 after the last. *distance: how far from
 * the call it was found, frames and pointers; the nearer of two answers is the better.
 */
enum callers_answer callers_lock(const struct lock_object *object, int kind, const uint64_t *frames,
				 struct lock_member *found, int *distance);
void callers_unload(void);

#endif
