// SPDX-License-Identifier: BSD-2-Clause
/* Chains of one hash in a pool that doubles when full, up to MAX_PIECES. */
#include "pieces.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4096

static uint32_t hash(const struct pieces *pieces, uint32_t device, uint64_t sector)
{
	uint64_t mixed = (sector ^ (uint64_t)device << 40) * 0x9E3779B97F4A7C15ULL;

	return (uint32_t)(mixed >> 32) & (pieces->room - 1);
}

static uint32_t *head_of(struct pieces *pieces, const struct piece *piece)
{
	return &pieces->heads[hash(pieces, piece->device, piece->sector)];
}

int pieces_init(struct pieces *pieces)
{
	memset(pieces, 0, sizeof(*pieces));
	pieces->room = FIRST_ROOM;
	pieces->used = 1;
	pieces->pool = calloc(pieces->room, sizeof(*pieces->pool));
	pieces->heads = calloc(pieces->room, sizeof(*pieces->heads));
	return pieces->pool && pieces->heads ? 0 : -1;
}

void pieces_free(struct pieces *pieces)
{
	free(pieces->pool);
	free(pieces->heads);
}

struct piece *pieces_find(struct pieces *pieces, uint32_t device, uint64_t sector, uint32_t kind,
			  enum piece_state state, uint32_t pid, uint32_t bytes)
{
	struct piece *first = NULL;
	uint32_t at = pieces->heads[hash(pieces, device, sector)];

	for (; at; at = pieces->pool[at].next) {
		struct piece *piece = &pieces->pool[at];

		if (piece->sector != sector || piece->device != device || piece->kind != kind ||
		    piece->state != state)
			continue;
		if ((!pid || piece->pid == pid) && (!bytes || piece->bytes == bytes))
			return piece;
		if (!first)
			first = piece;
	}
	return first;
}

/* Puts a piece of the pool behind those of its hash. */
static void link_last(struct pieces *pieces, uint32_t at)
{
	uint32_t *link = head_of(pieces, &pieces->pool[at]);

	while (*link)
		link = &pieces->pool[*link].next;
	*link = at;
	pieces->pool[at].next = 0;
}

static int grow(struct pieces *pieces)
{
	uint32_t room = pieces->room * 2, *heads;
	struct piece *pool = realloc(pieces->pool, room * sizeof(*pool));

	if (!pool)
		return -1;
	pieces->pool = pool;
	heads = calloc(room, sizeof(*heads));
	if (!heads)
		return -1;
	free(pieces->heads);
	pieces->heads = heads;
	pieces->room = room;
	/* In the order of the pool, which is not always that of age: equals at the same place are few. */
	for (uint32_t at = 1; at < pieces->used; at++)
		if (pool[at].state != PIECE_FREE)
			link_last(pieces, at);
	return 0;
}

void pieces_remove(struct pieces *pieces, struct piece *piece)
{
	uint32_t at = piece - pieces->pool, *link = head_of(pieces, piece);

	while (*link != at)
		link = &pieces->pool[*link].next;
	*link = piece->next;
	piece->state = PIECE_FREE;
	piece->next = pieces->free;
	pieces->free = at;
}

/* The pool is filled in turn, so the piece in turn is about the oldest. */
static void forget_oldest(struct pieces *pieces, struct piece *forgotten)
{
	uint32_t at;

	do {
		at = pieces->oldest + 1 < pieces->used ? pieces->oldest + 1 : 1;
		pieces->oldest = at;
	} while (pieces->pool[at].state == PIECE_FREE);
	*forgotten = pieces->pool[at];
	pieces_remove(pieces, &pieces->pool[at]);
}

/* Makes room in a chain that a trace made too long. */
static void bound_chain(struct pieces *pieces, const struct piece *piece, struct piece *forgotten)
{
	uint32_t first = *head_of(pieces, piece), length = 0;

	for (uint32_t at = first; at; at = pieces->pool[at].next)
		length++;
	if (length < MAX_ALIKE)
		return;
	*forgotten = pieces->pool[first];
	pieces_remove(pieces, &pieces->pool[first]);
}

struct piece *pieces_add(struct pieces *pieces, const struct piece *piece, struct piece *forgotten)
{
	uint32_t at;

	forgotten->state = PIECE_FREE;
	bound_chain(pieces, piece, forgotten);
	if (!pieces->free && pieces->used == pieces->room) {
		if (pieces->room >= MAX_PIECES)
			forget_oldest(pieces, forgotten);
		else if (grow(pieces))
			return NULL;
	}
	if (pieces->free) {
		at = pieces->free;
		pieces->free = pieces->pool[at].next;
	} else {
		at = pieces->used++;
	}
	pieces->pool[at] = *piece;
	link_last(pieces, at);
	return &pieces->pool[at];
}
