/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash table of entries of one size, each under a number that is not 0: open addressing, at most half full.
 *
 *	struct stack { uint64_t key; int32_t number; };
 *	static struct hash stacks = HASH(struct stack);
 *	struct stack *stack = hash_add(&stacks, key, &added);
 *
 * An entry begins with its key (uint64_t). Entries move when the table grows: a pointer to one is good until the
 * next hash_add().
 */
#ifndef SEEKMETER_HASH_H
#define SEEKMETER_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash {
	size_t entry_bytes; /* a multiple of 8 */
	size_t slots;	    /* a power of two, or 0 */
	size_t used;
	void *entries;
};

#define HASH(type)                          \
	{                                   \
		.entry_bytes = sizeof(type) \
	}

/* The entry of a key; NULL: there is none. */
void *hash_find(const struct hash *hash, uint64_t key);

/*
 * The entry of a key, made if there is none: zero behind its key then, and *added is true. NULL: there is no memory
 * (*added is false).
 */
void *hash_add(struct hash *hash, uint64_t key, bool *added);

/*
 * A key for a text: its 64-bit FNV-1a hash, never 0. Two texts may share a key, so compare the text too. key: KEY_OF_NOTHING,
 * or the key of what stands before the text.
 */
#define KEY_OF_NOTHING 14695981039346656037ULL
uint64_t hash_text(uint64_t key, const char *text);
/* The same for a number. */
uint64_t hash_number(uint64_t key, uint64_t number);

/* Frees all entries; the table is empty and can be used again. */
void hash_clear(struct hash *hash);

#endif
