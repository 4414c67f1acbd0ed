/* SPDX-License-Identifier: BSD-2-Clause */
/* The drive's state, which its three parts share: queue and events (drive.c), electronics and head. */
#ifndef SEEKMETER_DRIVE_STATE_H
#define SEEKMETER_DRIVE_STATE_H

#include <math.h>

#include "drive.h"
#include "extents.h"
#include "look_ahead.h"
#include "mechanics.h"
#include "params.h"

#define DRIVE_NONE  UINT32_MAX
#define DRIVE_NEVER INT64_MAX

struct slot {
	struct drive_request request; /* sector: of the drive, first_sector added */
	struct place place;
	int64_t admitted_ns; /* to the drive's queue */
	uint32_t next;	     /* waiting in the host's order, or free */
	bool busy;	     /* being served */
	bool hit;	     /* was seen in the cache or in a segment */
	bool cacheable;	     /* a write for the write cache, not larger than half of it */
};

enum stage { IDLE, POSITIONING, TRANSFERRING };

/* What the head does. */
struct work {
	enum stage stage;
	uint32_t slot;	       /* DRIVE_NONE: a destage */
	uint32_t segment;      /* of a read that read-ahead goes on from, else LOOK_AHEAD_NONE */
	uint64_t media_sector; /* of a read: what came before was in the segment */
	uint64_t media_end;
	uint32_t before;      /* sectors that passed the head before media_sector, and are kept */
	int64_t begin_ns;     /* transfer from or to the platter */
	int64_t media_end_ns; /* the head is beyond the last sector */
	bool is_on_media;     /* MEDIA_END has been told */
	struct head head;
	struct drive_service service;
};

struct drive {
	struct drive_params params;
	struct mechanics mechanics;
	struct extents dirty;
	struct look_ahead ahead;
	int64_t now_ns;

	struct slot *slots;
	uint32_t most_requests;
	uint32_t free_slot;
	uint32_t requests;
	uint32_t host_first, host_last; /* waiting for the drive's queue */
	int64_t last_arrival_ns;

	uint32_t queue[DRIVE_MOST_DEPTH]; /* slots, oldest first */
	uint32_t queued;

	struct head head;
	uint64_t head_sector; /* where the head's last work ended: destages are sought around it */
	struct work work;
	uint64_t capacity; /* sectors of the write cache */
	uint64_t destage_sectors,
		destage_extents; /* from these on destages take turns with requests */
	bool wants_room;	 /* a write waits for room in the cache */
	bool destaged_last;
	bool is_draining;
	int64_t last_request_ns;
	bool is_settled; /* all that can start has started */

	uint32_t electronics; /* slot, or DRIVE_NONE */
	struct drive_service electronics_service;

	uint32_t flush;	       /* slot, or DRIVE_NONE */
	int64_t last_media_ns; /* the head ended its last work */
	struct drive_service flush_service;
};

static inline int64_t bus_ns(const struct drive *drive, uint64_t sectors)
{
	return llround((double)sectors * 512e9 / drive->params.bus_bytes_per_s);
}

static inline int64_t overhead_of(const struct drive *drive, enum drive_op op)
{
	return op == DRIVE_OP_READ ? drive->params.read_overhead_ns
				   : drive->params.write_overhead_ns;
}

static inline uint64_t sectors_in_flight(const struct drive *drive)
{
	return drive->work.stage != IDLE && drive->work.slot == DRIVE_NONE
		       ? drive->work.service.sectors
		       : 0;
}

static inline void begin_service(const struct drive *drive, const struct slot *slot,
				 struct drive_service *service)
{
	*service = (struct drive_service){
		.id = slot->request.id,
		.op = slot->request.op,
		.fua = slot->request.fua,
		.sector = slot->request.sector,
		.sectors = slot->request.sectors,
		.queued = drive->queued,
		.cylinder = drive->head.cylinder,
		.arrival_ns = slot->request.arrival_ns,
		.start_ns = drive->now_ns,
	};
}

/* --- electronics.c --- */

/* Whether the read's data is in memory now, and where. */
bool electronics_find_hit(const struct drive *drive, const struct drive_request *read,
			  enum drive_how *how, uint32_t *segment);

/* Reads of the queue that these sectors, now in memory, serve. */
void electronics_mark_hits(struct drive *drive, uint64_t low, uint64_t high);

/* A write changes these sectors: what was read of them is old. */
void electronics_forget_read(struct drive *drive, const struct drive_request *write);

/* Starts the oldest request that needs no head, if there is one. The electronics are free. */
void electronics_start(struct drive *drive);

/* --- head.c --- */

/* Starts what the head does next, if there is anything. The head is free. */
void head_start(struct drive *drive);

/* The head's work is over: where it is, and what it reads ahead from here. */
void head_end_work(struct drive *drive);

/* When destages begin by themselves; DRIVE_NEVER: there is nothing to destage. */
int64_t head_idle_from_ns(const struct drive *drive);

#endif
