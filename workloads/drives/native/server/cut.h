/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A power cut: at a moment, what is on the platter stays, what the head was writing stays up to where the head was, and
 * of what the write cache held nothing, some or all stays. From then on each request gets EIO, until power is on again.
 *
 *   now          at once
 *   at=SECONDS   so long after the command
 *   request=N    the Nth read, write or flush after the command arrives; it gets EIO as the first
 *   flush=N      the Nth flush after the command arrives: what it would have made durable is in the cache still
 *   commit=N     the middle of the Nth flush after the command: half of what the cache held is on the platter
 */
#ifndef SEEKMETER_DRIVE_CUT_H
#define SEEKMETER_DRIVE_CUT_H

#include <stdbool.h>
#include <stdint.h>

struct service;

enum cut_when { CUT_NEVER, CUT_AT, CUT_AT_REQUEST, CUT_AT_FLUSH, CUT_IN_COMMIT };
enum cut_keeps { CUT_LOST, CUT_SOME, CUT_ALL };

struct cut {
	enum cut_when when;
	enum cut_keeps keeps;
	bool tears; /* an extent that stays may stay up to any sector only */
	uint64_t seed;
	int64_t at_ns;		 /* CUT_AT: CLOCK_MONOTONIC */
	uint64_t after;		 /* requests or flushes, counted from the server's start */
	bool in_commit;		 /* its flush is with the model... */
	uint64_t commit_sectors; /* ...until the cache holds no more than so many sectors */

	/* Of the last cut, for the control thread: is_news until it has read them. */
	bool is_news;
	int64_t cut_ns;
	uint64_t at_request;
	uint64_t dirty_bytes;
	uint64_t kept_bytes;
	int64_t torn_sector; /* the first sector that the head did not write any more; -1: it wrote nothing */

	/* What is under the head. */
	bool head_writes;
	uint64_t head_sector;
	uint32_t head_sectors;
	int64_t head_from_ns; /* of the model's clock */
	int64_t head_takes_ns;
};

/* With the lock held. Cuts the power. */
void cut_power(struct service *service);

/* With the lock held: a request has arrived and is counted. Cuts if it is the one. */
void cut_at_request(struct service *service, bool is_flush);

/* With the lock held: the head has begun to write. Sets the moment of a cut in the middle of a flush. */
void cut_in_commit(struct service *service);

#endif
