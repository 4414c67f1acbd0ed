/* SPDX-License-Identifier: BSD-2-Clause */
/* The triggers `request`, `stall` and `depth`, on the requests in flight and on those that have ended. */
#ifndef SEEKMETER_BLOCK_TRIGGERS_H
#define SEEKMETER_BLOCK_TRIGGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/records.h"
#include "recorder/options.h"

/* What the triggers look at; filled in by block.c. */
struct block_view {
	const struct block_inflight *slots; /* the mapped table; NULL: not open */
	size_t slot_count;
	const struct disk *disks;
	int disk_count;
	/* Asks the kernel whether the request of this slot is under way: a completion may have been missed. */
	bool (*is_under_way)(uint32_t slot);
};

extern struct block_view block_view;

/* A request has ended. Called for each row, before it is written. */
void block_triggers_row(const struct block_record *row);

#endif
