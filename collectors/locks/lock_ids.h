/* SPDX-License-Identifier: BSD-2-Clause */
/* What a lock is called in the tables: a number of our own, so that no run tells where the kernel's memory lies. */
#ifndef SEEKMETER_LOCK_IDS_H
#define SEEKMETER_LOCK_IDS_H

#include <stdint.h>

/*
 * The lock's number, the same in all tables of a run: 1, 2, 3… in the order in which they are first asked for. 0: the
 * address is 0, or there are too many locks (or no memory) for one more.
 */
uint64_t lock_id(uint64_t address);
void lock_ids_forget(void);

#endif
