/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * disk_service.rec: one row for each request that the drive ended and for each destage, as analysis/tables/rec.py reads
 * it. Real-time threads put rows into a ring; a thread without priority writes them. Several servers append to one file.
 */
#ifndef SEEKMETER_DRIVE_RECORD_H
#define SEEKMETER_DRIVE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

struct record_row {
	int64_t arrival_ns;
	int64_t start_ns;
	int64_t end_ns;
	int64_t reply_ns;
	int64_t overhead_ns;
	int64_t seek_ns;
	int64_t rotation_ns;
	int64_t transfer_ns;
	int64_t wait_ns;
	uint64_t sector;
	uint32_t dev;
	uint32_t sectors;
	uint32_t cylinder;
	uint32_t queued;
	uint8_t op;
	uint8_t how;
	uint8_t fua;
	uint8_t pad[5];
};

/* Writes the header if the file is empty. fd -1: rows are not kept. 0, or -1 with errno. */
int record_start(int fd);

void record_set_dev(uint32_t dev); /* major << 20 | minor */

/*
 * Reserves the next row; the caller fills it, and calls record_ready() when its reply is out. NULL: no room, the row is
 * lost and counted. The service's lock covers record_reserve(), so rows are in the order of their reservation.
 */
struct record_row *record_reserve(void);
void record_ready(struct record_row *row);

/* From here on rows are lost, and counted: the run has no room for more. Those that are reserved are still written. */
void record_close(void);

/* Writes what is ready. From the control thread, when all is over. */
void record_end(void);
uint64_t record_lost(void);
uint64_t record_written(void);

#endif
