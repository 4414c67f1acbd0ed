/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of device numbers in the BPF programs (struct dev_entry): a hash without collisions, so that a lookup is one
 * step however many disks are recorded.
 */
#ifndef SEEKMETER_DEV_TABLE_H
#define SEEKMETER_DEV_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "common/records.h"

/* The most entries: disks and volumes, and components. */
#define DEV_ENTRIES_MAX (MAX_DEVS + 256)

/*
 * Puts entries of different numbers into the table of DEV_SLOTS, which is all zeros. Returns the multiplier for DEV_SLOT();
 * 0: none was found, and the table is as it was. 320 entries take some hundred thousand tries, a tenth of a second.
 */
uint32_t dev_table_fill(struct dev_entry *table, const struct dev_entry *entries, size_t count);

#endif
