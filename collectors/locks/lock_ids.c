// SPDX-License-Identifier: BSD-2-Clause
/*
 * Lock numbers: one per lock address, the same in all tables of a run; see lock_ids.h.
 *
 * The number is a counter and not a hash of the address: a hash would let a reader check guesses of the address.
 */
#include "lock_ids.h"

#include <stdlib.h>

#include "recorder/hash.h"

/* 128 MB of numbers; lock_names.c keeps ten times that for as many locks. */
#define MOST_LOCKS (1UL << 22)

struct numbered {
	uint64_t address;
	uint64_t id;
};

static struct hash ids = HASH(struct numbered);

/* SEEKMETER_MOST_LOCKS=N lowers the limit: for machines short of memory, and for the test of a full table. */
static size_t most_locks(void)
{
	static size_t most;
	const char *text = getenv("SEEKMETER_MOST_LOCKS");

	if (!most)
		most = text ? strtoul(text, NULL, 10) : 0;
	if (!most || most > MOST_LOCKS)
		most = MOST_LOCKS;
	return most;
}

uint64_t lock_id(uint64_t address)
{
	struct numbered *lock;
	bool added;

	if (!address)
		return 0;
	lock = hash_find(&ids, address);
	if (lock)
		return lock->id;
	if (ids.used >= most_locks())
		return 0;
	lock = hash_add(&ids, address, &added);
	if (!lock)
		return 0;
	lock->id = ids.used;
	return lock->id;
}

void lock_ids_clear(void)
{
	hash_clear(&ids);
}
