/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks in per-CPU variables of the kernel. */
#ifndef SEEKMETER_LOCK_PERCPU_H
#define SEEKMETER_LOCK_PERCPU_H

#include "member.h"

/* Finds the begin of each CPU's variables; call types_load() first. If that fails, no lock counts as per-CPU. */
void percpu_load(void);
void percpu_unload(void);
/* found->name is the variable and the member: runqueues.__lock. False: the lock is in no per-CPU variable. */
bool percpu_lock(uint64_t lock, int kind, struct lock_member *found);

#endif
