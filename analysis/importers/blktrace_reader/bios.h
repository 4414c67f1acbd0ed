/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bios of volumes, in a hash table by device and place.
 *
 * A bio is found by its first sector, by any sector in it, or by its end. A trace can hold anything, so the table is
 * bounded: at most MAX_BIOS in all. In a full table a new bio replaces the oldest, which the caller gets.
 */
#ifndef SEEKMETER_BLKTRACE_BIOS_H
#define SEEKMETER_BLKTRACE_BIOS_H

#include <stdbool.h>
#include <stdint.h>

#include "pieces.h"

#define MAX_BIOS   (1U << 18)
#define BIO_LEVELS 24 /* a bio has less than 2^23 sectors */

enum bio_state {
	BIO_FREE,
	BIO_OPEN, /* queued on a volume, and not ended */
	BIO_SENT, /* remapped to a device that did not queue it yet */
	BIO_PART, /* in a request of that device, which never queued it: the volume's bio itself went on */
};

struct bio {
	uint64_t id, sector, queue_ns;
	struct origin origin; /* of a bio of the top volume: itself */
	uint64_t parent_id,
		parent_sector; /* of BIO_SENT, BIO_PART: the volume's bio that it serves */
	uint64_t split_at;     /* the rest of it begins here (X); 0: not split */
	uint32_t parent_device;
	uint32_t device, bytes, kind, flags;
	uint32_t left;	       /* bytes of it that its BIO_PARTs have not ended */
	uint32_t thread;       /* that submitted this one; origin.pid that of the top's */
	uint32_t next;	       /* of the same hash, newer; 0: none */
	uint8_t level, state;  /* state: enum bio_state */
	char comm[COMM_BYTES]; /* of origin.pid */
};

struct bios {
	struct bio *pool;	       /* 0 is no bio */
	uint32_t *heads;	       /* by hash */
	uint32_t room, used, free;     /* room: of the pool and of the heads */
	uint32_t sent;		       /* those of BIO_SENT */
	uint32_t oldest;	       /* where to look for one to give up */
	uint32_t of_level[BIO_LEVELS]; /* those of BIO_OPEN */
};

int bios_init(struct bios *bios);
void bios_free(struct bios *bios);

/* One of BIO_SENT or BIO_PART at this first sector: the newest, if possible of this thread and this size (0: any). */
struct bio *bios_at(struct bios *bios, uint32_t device, uint64_t sector, uint32_t kind,
		    enum bio_state state, uint32_t thread, uint32_t bytes);
/* One of BIO_OPEN that this sector lies in: the newest of this thread, else the oldest. */
struct bio *bios_covering(struct bios *bios, uint32_t device, uint64_t sector, uint32_t kind,
			  uint32_t thread);
/* One of BIO_OPEN that ends before this sector: the oldest that begins at `start`, else the oldest. */
struct bio *bios_ending(struct bios *bios, uint32_t device, uint64_t end, uint32_t kind,
			uint64_t start);
/* One of BIO_OPEN by its id and first sector. */
struct bio *bios_by_id(struct bios *bios, uint32_t device, uint64_t sector, uint64_t id);

/*
 * Adds a copy. *forgotten is what had to make room for it (state BIO_FREE: nothing had to). Earlier pointers to bios
 * are invalid. Returns NULL without memory.
 */
struct bio *bios_add(struct bios *bios, const struct bio *bio, struct bio *forgotten);
/* BIO_SENT becomes BIO_PART. */
void bios_make_part(struct bios *bios, struct bio *bio);
void bios_remove(struct bios *bios, struct bio *bio);

#endif
