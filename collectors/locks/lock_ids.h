/* SPDX-License-Identifier: BSD-2-Clause */
/* Lock numbers for the tables, so that no run reveals kernel addresses. */
#ifndef SEEKMETER_LOCK_IDS_H
#define SEEKMETER_LOCK_IDS_H

#include <stdint.h>

/*
 * The number of the lock at this address: 1, 2, 3… in the order of first use, the same in all tables of a run.
 * 0: the address is 0, there are too many locks, or no memory is left.
 */
uint64_t lock_id(uint64_t address);
/* Forgets all numbers. */
void lock_ids_clear(void);

#endif
