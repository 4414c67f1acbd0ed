/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hard disk as a pure model: requests and their arrival times in, service times out. No clock, no input or output,
 * no allocation after drive_new(): the server runs the model against the real clock, drive-cost in virtual time.
 *
 * All times are nanoseconds of the model's clock, from 0; sectors are 512 B.
 *
 * The drive has two parts that work side by side: the electronics, which take writes into the cache and serve reads
 * from it over the bus, one at a time in order; and the head, which serves one request or destage at a time, by the
 * drive's rule. The electronics' overhead of a request that waits for the head passes while the head serves another.
 * A read that is dirty in part is read whole from the platter, the cache's sectors laid over it. A flush begins when
 * all earlier requests have ended, and ends when the cache is on the platter; later requests wait until then.
 */
#ifndef SEEKMETER_DRIVE_H
#define SEEKMETER_DRIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one request: 32 MiB */
#define DRIVE_MOST_SECTORS  65536
/* Of drive_new()'s most_requests */
#define DRIVE_MOST_REQUESTS 65536

struct drive;
struct drive_params; /* params.h */

enum drive_op {
	DRIVE_OP_READ,
	DRIVE_OP_WRITE,
	DRIVE_OP_FLUSH,
	DRIVE_OP_DESTAGE, /* the drive's own: cached writes go to the platter; never submitted */
};

enum drive_how {
	DRIVE_HOW_MEDIA, /* from or to the platter; a flush always */
	DRIVE_HOW_CACHE, /* a write taken by the write cache, or a read of data that is in the write cache */
	DRIVE_HOW_READ_AHEAD, /* a read of data that the drive had read ahead, or was reading ahead */
};

struct drive_request {
	uint64_t id; /* the caller's; comes back in the reply */
	enum drive_op op;
	bool fua; /* of a write: reply only once it is on the platter */
	uint64_t sector;
	uint32_t sectors; /* 1 to DRIVE_MOST_SECTORS; of a flush: any */
	int64_t arrival_ns;
};

/* One piece of work of the drive: a request that ended, or a destage. Pieces of the time from start to end. */
struct drive_service {
	uint64_t id; /* of a destage: 0 */
	enum drive_op op;
	enum drive_how how;
	bool fua;
	bool by_head; /* it kept the head busy from start to end; else the electronics alone served it */
	uint64_t sector;
	uint32_t sectors;
	uint32_t queued;   /* requests that the drive had, this one too, when this one was chosen */
	uint32_t cylinder; /* of the head, after it */
	int64_t arrival_ns; /* of a destage: 0 */
	int64_t start_ns; /* the drive turned to it: what is left of the electronics' overhead begins */
	int64_t end_ns; /* status goes to the host */
	int64_t overhead_ns;
	int64_t seek_ns; /* with head switches and settling, also those between tracks within it */
	int64_t rotation_ns; /* the same */
	int64_t transfer_ns; /* from or to the platter, or over the bus for a cache hit, also until read-ahead has it */
	/* start + overhead + seek + rotation + transfer + wait = end; wait: of a flush, for the destages before it */
	int64_t wait_ns;
};

enum drive_event_kind {
	DRIVE_EVENT_NONE,
	DRIVE_EVENT_DONE, /* service: a request ended; answer it */
	/*
	 * service.sector, sectors: the head begins to write these sectors (at start of transfer), and will have ended
	 * at service.end_ns. A destage has left the cache for the platter: what is written to these sectors from now
	 * on is dirty anew.
	 */
	DRIVE_EVENT_MEDIA_BEGIN,
	DRIVE_EVENT_MEDIA_END, /* service: they are on the platter (op WRITE: through the cache or FUA; DESTAGE) */
};

struct drive_event {
	enum drive_event_kind kind;
	int64_t at_ns;
	struct drive_service service;
};

/* Makes a drive at rest. NULL with errno set: ENOMEM, EINVAL (params that no drive can have). Seed: phase of the platter. */
struct drive *drive_new(const struct drive_params *params, uint32_t most_requests, uint64_t seed);
void drive_free(struct drive *drive);

/*
 * Takes a request, in the order of arrivals. Requests beyond the drive's own queue depth wait in that order. An arrival
 * before the model's clock, or before the last request's, counts as the later of the two. Returns 0, or -1 with errno:
 * EAGAIN (most_requests are there), ERANGE (beyond the disk's end), EINVAL (a destage, no sectors or too many).
 */
int drive_submit(struct drive *drive, const struct drive_request *request);

/*
 * When the drive has something to do if nothing more arrives; INT64_MAX: never. Mostly that is an event, but it may be
 * work that nobody sees (an arrival, an idle time that is over): then drive_step() until then gives no event.
 */
int64_t drive_next_ns(const struct drive *drive);

/* Advances the model's clock to the next event that is due at or before until_ns. False: none; the clock is until_ns. */
bool drive_step(struct drive *drive, int64_t until_ns, struct drive_event *event);

/*
 * Calls visit for each extent of the write cache that is not on the platter, oldest write first: the one that is being
 * destaged, then the others, of which those that lie side by side are one.
 */
void drive_dirty(const struct drive *drive,
		 void (*visit)(uint64_t sector, uint32_t sectors, void *argument), void *argument);

/* Whether any of these sectors is dirty (not counting the destage that is under way). */
bool drive_is_dirty(const struct drive *drive, uint64_t sector, uint32_t sectors);

/* Power off and on: queue, write cache and read-ahead are empty. The clock goes on. */
void drive_reset(struct drive *drive);

/* The model's clock. */
int64_t drive_now_ns(const struct drive *drive);

/* Requests that were submitted and have not ended. */
uint32_t drive_requests(const struct drive *drive);

/* Dirty bytes of the cache, those being destaged too. */
uint64_t drive_dirty_bytes(const struct drive *drive);

uint64_t drive_sectors(const struct drive *drive);
uint32_t drive_cylinders(const struct drive *drive);

#endif
