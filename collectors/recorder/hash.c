// SPDX-License-Identifier: BSD-2-Clause
/* A hash table with open addressing and linear probing; see hash.h. Nothing is ever taken out of it. */
#include "hash.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 1024

/* Knuth's multiplicative hash (The Art of Computer Programming, volume 3, 6.4): 2^64 divided by the golden ratio. */
#define MULTIPLIER 0x9E3779B97F4A7C15ULL

static uint64_t *entry_at(const struct hash *hash, void *entries, size_t slot)
{
	return (uint64_t *)((char *)entries + slot * hash->entry_bytes);
}

/* Returns the key's slot, or the free slot in which the key belongs. At least one of `slots` must be free. */
static uint64_t *slot_of(const struct hash *hash, void *entries, size_t slots, uint64_t key)
{
	size_t slot = (key * MULTIPLIER) >> 32;
	uint64_t *entry;

	for (;; slot++) {
		entry = entry_at(hash, entries, slot & (slots - 1));
		if (!*entry || *entry == key)
			return entry;
	}
}

static bool grow(struct hash *hash)
{
	size_t slots = hash->slots ? hash->slots * 2 : FIRST_SLOTS;
	void *entries = calloc(slots, hash->entry_bytes);

	if (!entries)
		return false;
	for (size_t i = 0; i < hash->slots; i++) {
		uint64_t *entry = entry_at(hash, hash->entries, i);

		if (*entry)
			memcpy(slot_of(hash, entries, slots, *entry), entry, hash->entry_bytes);
	}
	free(hash->entries);
	hash->entries = entries;
	hash->slots = slots;
	return true;
}

void *hash_find(const struct hash *hash, uint64_t key)
{
	uint64_t *entry;

	if (!hash->slots)
		return NULL;
	entry = slot_of(hash, hash->entries, hash->slots, key);
	return *entry ? entry : NULL;
}

void *hash_add(struct hash *hash, uint64_t key, bool *added)
{
	uint64_t *entry;

	*added = false;
	entry = hash_find(hash, key);
	if (entry)
		return entry;
	if (hash->used * 2 >= hash->slots && !grow(hash))
		return NULL;
	entry = slot_of(hash, hash->entries, hash->slots, key);
	*entry = key;
	hash->used++;
	*added = true;
	return entry;
}

uint64_t hash_number(uint64_t key, uint64_t number)
{
	key = (key ^ number) * 1099511628211ULL;
	return key ? key : 1;
}

uint64_t hash_text(uint64_t key, const char *text)
{
	for (; *text; text++)
		key = (key ^ (unsigned char)*text) * 1099511628211ULL;
	return hash_number(key, 0); /* the end of the text: "ab", "c" is not "a", "bc" */
}

void hash_clear(struct hash *hash)
{
	free(hash->entries);
	hash->entries = NULL;
	hash->slots = hash->used = 0;
}
