// SPDX-License-Identifier: BSD-2-Clause
/*
 * Puts numbers from standard input into the recorder's hash table, one a line, and prints what became of each:
 * the order of the first sight of its key, and how often the key was seen. After all of them: the number of keys.
 */
#include "recorder/hash.h"

#include <inttypes.h>
#include <stdio.h>

struct seen {
	uint64_t key, first, times;
};

int main(void)
{
	struct hash hash = HASH(struct seen);
	struct seen *seen;
	uint64_t key;
	bool added;

	while (scanf("%" SCNu64, &key) == 1) {
		if (hash_find(&hash, key) && ((struct seen *)hash_find(&hash, key))->key != key)
			return 1;
		seen = hash_add(&hash, key, &added);
		if (!seen || added != !seen->times || seen != hash_find(&hash, key))
			return 1;
		if (added)
			seen->first = hash.used;
		seen->times++;
		printf("%" PRIu64 " %" PRIu64 "\n", seen->first, seen->times);
	}
	printf("%zu\n", hash.used);
	hash_clear(&hash);
	return hash_find(&hash, key) != NULL;
}
