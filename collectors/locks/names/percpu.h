/* SPDX-License-Identifier: BSD-2-Clause */
/* Which per-CPU variable of the kernel a lock is in. */
#ifndef SEEKMETER_LOCK_PERCPU_H
#define SEEKMETER_LOCK_PERCPU_H

#include "member.h"

/* Asks the kernel where its CPUs' parts are; types_load() comes first. Without an answer nothing is per-CPU. */
void percpu_load(void);
void percpu_unload(void);
/* False: it is in none. found->name is the variable and the member: runqueues.__lock. */
bool percpu_lock(uint64_t lock, int kind, struct lock_member *found);

#endif
