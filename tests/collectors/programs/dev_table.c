// SPDX-License-Identifier: BSD-2-Clause
/*
 * Fills the table of device numbers (collectors/block/dev_table.c) with the numbers of standard input, in this order, and
 * prints the index that a lookup of each finds, and of each number + 1.
 */
#include <stdio.h>
#include <stdlib.h>

#include "block/dev_table.h"

static struct dev_entry table[DEV_SLOTS];

static int look_up(uint32_t dev, uint32_t multiplier)
{
	const struct dev_entry *entry = &table[DEV_SLOT(dev, multiplier)];

	return entry->flags && entry->dev == dev ? entry->index + 256 * entry->parent : -1;
}

int main(void)
{
	struct dev_entry entries[DEV_ENTRIES_MAX] = { 0 };
	size_t count = 0;
	uint32_t multiplier;

	while (count < DEV_ENTRIES_MAX && scanf("%u", &entries[count].dev) == 1) {
		entries[count].index = count & 255;
		entries[count].parent = count >> 8;
		entries[count++].flags = DEV_LEAF;
	}
	multiplier = dev_table_fill(table, entries, count);
	if (!multiplier)
		return EXIT_FAILURE;
	for (size_t i = 0; i < count; i++)
		printf("%d %d\n", look_up(entries[i].dev, multiplier),
		       look_up(entries[i].dev + 1, multiplier));
	return EXIT_SUCCESS;
}
