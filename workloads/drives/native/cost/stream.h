/* SPDX-License-Identifier: BSD-2-Clause */
/* The stream of requests, and the rows: records or lines. */
#ifndef SEEKMETER_DRIVE_STREAM_H
#define SEEKMETER_DRIVE_STREAM_H

#include <stdio.h>

#include "model/drive.h"

struct cost_row {
	int64_t request; /* number in the stream; -1: a destage */
	int64_t issue_ns;
	int64_t arrival_ns;
	int64_t start_ns;
	int64_t end_ns;
	int64_t overhead_ns;
	int64_t seek_ns;
	int64_t rotation_ns;
	int64_t transfer_ns;
	int64_t wait_ns;
	uint64_t sector;
	uint32_t sectors;
	uint32_t cylinder;
	uint32_t queued;
	uint8_t op;
	uint8_t how;
	uint8_t fua;
	uint8_t by_head;
};

enum stream_end { STREAM_MORE, STREAM_END, STREAM_WRONG, STREAM_FAILED };

/* Reads the next request; id is its number, from 0. Wrong: it is no request. Failed: errno. */
enum stream_end stream_read(FILE *file, bool text, uint64_t number, struct drive_request *request);

/* 0, or -1 with errno. */
int stream_write(FILE *file, bool text, const struct cost_row *row);

#endif
