// SPDX-License-Identifier: BSD-2-Clause
/* Searches the multiplier that puts each device number into a slot of its own; see dev_table.h. */
#include "dev_table.h"

#include <stdbool.h>
#include <string.h>

#define TRIES 20000000

static bool fits(const struct dev_entry *entries, size_t count, uint32_t multiplier)
{
	uint64_t taken[DEV_SLOTS / 64] = { 0 };

	for (size_t i = 0; i < count; i++) {
		uint32_t slot = DEV_SLOT(entries[i].dev, multiplier);
		uint64_t bit = 1ULL << (slot % 64);

		if (taken[slot / 64] & bit)
			return false;
		taken[slot / 64] |= bit;
	}
	return true;
}

uint32_t dev_table_fill(struct dev_entry *table, const struct dev_entry *entries, size_t count)
{
	uint32_t multiplier = 0x9E3779B9; /* Fibonacci hashing: spreads numbers in a row */

	for (int i = 0; i < TRIES; i++) {
		if (fits(entries, count, multiplier)) {
			for (size_t j = 0; j < count; j++)
				table[DEV_SLOT(entries[j].dev, multiplier)] = entries[j];
			return multiplier;
		}
		/* A linear congruential step (Knuth); a multiplier is odd, or it loses bits of the number. */
		multiplier = (multiplier * 1664525 + 1013904223) | 1;
	}
	return 0;
}
