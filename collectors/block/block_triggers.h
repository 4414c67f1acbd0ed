/* SPDX-License-Identifier: BSD-2-Clause */
/* The triggers `request`, `stall` and `depth`, on requests and bios in flight and on those that have ended. */
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
	const struct volume_set *bios; /* VOLUME_SETS, mapped; NULL: there are no volumes */
	uint8_t *bios_taken;	       /* by set: it took a bio since this was cleared */
	const struct disk *disks;      /* and volumes */
	int disk_count;
	/* Asks the kernel whether the request of this slot is under way: a completion may have been missed. */
	bool (*is_under_way)(uint32_t slot);
	bool (*is_bio_under_way)(uint32_t slot);
};

extern struct block_view block_view;

/* Copies the request that a slot holds, or the bio. False: there is none, it has ended unseen, or it changed meanwhile. */
bool block_view_request(uint32_t slot, struct block_record *record);
bool block_view_bio(uint32_t slot, struct volume_record *record);

/* A request has ended. Called for each row, before it is written. */
void block_triggers_row(const struct block_record *row);
/* The same of a bio to a volume. */
void block_triggers_bio(const struct volume_record *row);

#endif
