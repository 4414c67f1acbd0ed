/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queued bios and requests in flight, in a hash table by device and sector.
 *
 * A trace can hold anything, so the table is bounded: at most MAX_PIECES in all, and at most MAX_ALIKE at one sector.
 * In a full table a new piece replaces the oldest, which the caller gets.
 */
#ifndef SEEKMETER_BLKTRACE_PIECES_H
#define SEEKMETER_BLKTRACE_PIECES_H

#include <stdbool.h>
#include <stdint.h>

#define SECTOR_BYTES 512
#define MAX_PIECES   (1U << 20)
#define MAX_ALIKE    64
#define COMM_BYTES   16

/* The sector behind so many bytes. */
static inline uint64_t sector_after(uint64_t sector, uint32_t bytes)
{
	return sector + bytes / SECTOR_BYTES;
}

enum piece_state {
	PIECE_FREE,
	PIECE_QUEUED,
	PIECE_IN_FLIGHT,
	PIECE_END, /* no piece: at this sector one in flight ends, which begins where a bio was split */
};

/* What tells that a write that is said to serve sector 0 of a volume is parity, if the volume has parity at all. */
enum zero_state {
	ZERO_NO,
	ZERO_ALONE,	/* no bio to that sector was open */
	ZERO_ELSEWHERE, /* it went elsewhere than where that sector was read */
	ZERO_OPEN,	/* nothing: a bio to that sector was open */
};

/* The bio of the top volume that a bio or a request below it serves. */
struct origin {
	uint64_t id; /* 0: none, or not known */
	uint64_t queue_ns;
	uint64_t sector;      /* on the top volume: of the first sector that is served */
	uint32_t device, pid; /* the top volume; the thread that submitted to it */
	uint32_t zero_of;     /* the write is said to serve sector 0 of this volume; 0: of none */
	uint8_t zero;	      /* enum zero_state */
};

struct piece {
	uint64_t sector; /* where what is left of it begins */
	uint64_t queue_ns, get_request_ns, insert_ns, issue_ns;
	uint64_t q2m_ns;    /* sum over its merges that were seen: queueing to merge */
	uint64_t merges_ns; /* sum of their times, modulo 2**64 */
	struct origin origin;
	uint32_t device;
	uint32_t bytes;	       /* left */
	uint32_t done_bytes;   /* completed, before `sector` */
	uint32_t parity_bytes; /* of several pieces of which some are parity; else 0 */
	uint32_t pid;
	uint32_t
		kind; /* of the request: the categories that tell it from another at the same place */
	uint32_t flags; /* all categories */
	uint32_t next;	/* of the same hash, newer; 0: none */
	uint16_t merges, merges_seen, requeues;
	uint8_t state;	       /* enum piece_state */
	bool from_request;     /* its bio was not seen */
	bool rest;	       /* of a bio that was split */
	bool has_end;	       /* there is a PIECE_END of it */
	bool merged;	       /* a discard that went into a request of several places */
	bool in_place;	       /* the volume's own bio, which was never queued here */
	char comm[COMM_BYTES]; /* of origin.pid if there is an origin, else of pid */
};

struct pieces {
	struct piece *pool;	   /* 0 is no piece */
	uint32_t *heads;	   /* by hash */
	uint32_t room, used, free; /* room: of the pool and of the heads */
	uint32_t oldest;	   /* where to look for one to give up */
};

int pieces_init(struct pieces *pieces);
void pieces_free(struct pieces *pieces);

/*
 * The oldest piece at this place, kind and state; of several, the oldest that is also of this pid (if not 0) or this
 * size (if not 0). NULL: none.
 */
struct piece *pieces_find(struct pieces *pieces, uint32_t device, uint64_t sector, uint32_t kind,
			  enum piece_state state, uint32_t pid, uint32_t bytes);

/*
 * Adds a copy. *forgotten is what had to make room for it (state PIECE_FREE: nothing had to). Earlier pointers
 * to pieces are invalid. Returns NULL without memory.
 */
struct piece *pieces_add(struct pieces *pieces, const struct piece *piece, struct piece *forgotten);
void pieces_remove(struct pieces *pieces, struct piece *piece);

#endif
