/* SPDX-License-Identifier: BSD-2-Clause */
/* Which struct a lock is in, judged by the functions that wait for it. */
#ifndef SEEKMETER_LOCK_CALLERS_H
#define SEEKMETER_LOCK_CALLERS_H

#include "lock_members.h"
#include "records.h"

/*
 * frames: return addresses, innermost first, 0 after the last. False: no struct, or several as likely. *distance: how far from
 * the call it was found, frames and pointers; the nearer of two answers is the better.
 */
bool callers_lock(const struct lock_object *object, int kind, const uint64_t *frames,
		  struct lock_member *found, int *distance);
void callers_unload(void);

#endif
