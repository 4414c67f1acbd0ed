// SPDX-License-Identifier: BSD-2-Clause
/* Sectors that describe themselves: see sectors.h. */
#include <string.h>

#include "common/stats/rng.h"
#include "promises/sectors.h"

#define WORDS	   (SECTOR_BYTES / sizeof(uint64_t))
#define HEAD_WORDS 3
#define MAGIC	   0x53494d4f52504b53u /* "SKPROMIS" */

void sector_fill(void *to, uint64_t seed, const struct sector_id *id)
{
	uint64_t place = (uint64_t)id->version << 32 | id->sector;
	struct rng rng = { .state = seed ^ id->file * 0xd1342543de82ef95u ^ place };
	uint64_t words[WORDS] = { MAGIC, id->file, place };
	uint64_t word = rng_next(&rng);

	for (size_t i = HEAD_WORDS; i < WORDS; i++)
		words[i] = word + i;
	memcpy(to, words, sizeof(words));
}

bool sector_read(const void *from, uint64_t seed, struct sector_id *id)
{
	uint64_t words[WORDS], expected[WORDS];

	memcpy(words, from, sizeof(words));
	if (words[0] != MAGIC)
		return false;
	id->file = words[1];
	id->version = (uint32_t)(words[2] >> 32);
	id->sector = (uint32_t)words[2];
	sector_fill(expected, seed, id);
	return memcmp(words, expected, sizeof(words)) == 0;
}
