/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Read-ahead: segments of sectors that the drive has read, and the one that the head goes on to fill while no request
 * wants the head. How far it is follows from the time: nothing is stepped while nobody asks.
 */
#ifndef SEEKMETER_DRIVE_LOOK_AHEAD_H
#define SEEKMETER_DRIVE_LOOK_AHEAD_H

#include "mechanics.h"

#define LOOK_AHEAD_NONE UINT32_MAX

/* Sectors from low to below high are there; none: low == high. */
struct segment {
	uint64_t low;
	uint64_t high;
	uint64_t used; /* number of its last use: the least recently used is replaced */
};

struct look_ahead {
	struct segment *segments;
	uint32_t count;
	uint32_t segment_sectors;
	uint64_t end; /* of the disk */
	uint64_t uses;
	uint32_t active; /* the segment that the head fills, or LOOK_AHEAD_NONE */
	uint64_t limit;	 /* it fills up to here */
	int64_t time_ns; /* high of the active one was reached then, or the head goes on from there then */
	struct head head;
};

/* 0, or -1 with errno ENOMEM. */
int look_ahead_init(struct look_ahead *ahead, uint32_t count, uint32_t segment_sectors,
		    uint64_t end);
void look_ahead_free(struct look_ahead *ahead);
void look_ahead_clear(struct look_ahead *ahead);

/* The segment that has the sector, or that ends there, or LOOK_AHEAD_NONE. */
uint32_t look_ahead_find(const struct look_ahead *ahead, uint64_t sector);

/* A segment for a read that begins here: the one that it continues, or the least recently used, emptied. */
uint32_t look_ahead_take(struct look_ahead *ahead, uint64_t sector);

/* A read from the platter ended at sector end: the head goes on from there, at this time and place. */
void look_ahead_begin(struct look_ahead *ahead, uint32_t segment, uint64_t end, int64_t at_ns,
		      const struct head *head);

/* The active segment gets so many sectors before its first one, and keeps them: it fills, and is no ring. */
void look_ahead_keep(struct look_ahead *ahead, uint32_t before);

/* A request has taken sectors up to end: the segment has room for as many more. */
void look_ahead_extend(struct look_ahead *ahead, uint64_t end, int64_t at_ns);

/* Brings the active segment to this time. */
void look_ahead_advance(struct look_ahead *ahead, const struct mechanics *mechanics, int64_t at_ns);

/* When the active segment will have the sectors before end, which is at or before its limit. */
int64_t look_ahead_ready_ns(const struct look_ahead *ahead, const struct mechanics *mechanics,
			    uint64_t end);

/* A write of these sectors: no segment has them any more. True: the head no longer reads ahead. */
bool look_ahead_forget(struct look_ahead *ahead, uint64_t sector, uint64_t sectors);

#endif
