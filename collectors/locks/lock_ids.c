// SPDX-License-Identifier: BSD-2-Clause
/* Numbers for locks, by their address; see lock_ids.h. A hash of the address would be a way to check a guess. */
#include "lock_ids.h"

#include <stdbool.h>
#include <stdlib.h>

/* 128 MB of numbers; what lock_names.c keeps of each lock is ten times that. */
#define MOST_LOCKS (1UL << 22)

struct place {
	uint64_t address; /* 0: free */
	uint64_t id;
};

static struct place *table; /* an open hash table */
static size_t room, used;

static struct place *place_of(struct place *in, size_t size, uint64_t address)
{
	size_t at = (address * 0x9E3779B97F4A7C15ULL) >> 32;

	while (in[at & (size - 1)].address && in[at & (size - 1)].address != address)
		at++;
	return &in[at & (size - 1)];
}

/* SEEKMETER_MOST_LOCKS=N is for machines short of memory, and the test of a full table. */
static size_t most_locks(void)
{
	static size_t most;
	const char *asked = getenv("SEEKMETER_MOST_LOCKS");

	if (!most)
		most = asked ? strtoul(asked, NULL, 10) : 0;
	if (!most || most > MOST_LOCKS)
		most = MOST_LOCKS;
	return most;
}

static bool grow(void)
{
	size_t bigger = room ? room * 2 : 1024;
	struct place *fresh = calloc(bigger, sizeof(*fresh));

	if (!fresh)
		return false;
	for (size_t i = 0; i < room; i++)
		if (table[i].address)
			*place_of(fresh, bigger, table[i].address) = table[i];
	free(table);
	table = fresh;
	room = bigger;
	return true;
}

uint64_t lock_id(uint64_t address)
{
	struct place *place = room ? place_of(table, room, address) : NULL;

	if (!address)
		return 0;
	if (place && place->address)
		return place->id;
	if (used == most_locks())
		return 0;
	if (used * 2 >= room) {
		if (!grow())
			return 0;
		place = place_of(table, room, address);
	}
	*place = (struct place){ .address = address, .id = ++used };
	return place->id;
}

void lock_ids_forget(void)
{
	free(table);
	table = NULL;
	room = used = 0;
}
