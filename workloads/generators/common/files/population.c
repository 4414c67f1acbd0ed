// SPDX-License-Identifier: BSD-2-Clause
/* The files of a web cache, drawn from the size distribution of Barford and Crovella (1998); see population.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/session/fail.h"
#include "common/stats/rng.h"
#include "population.h"
#include "ustar.h"

#define BODY_SHARE 0.93
#define BODY_MU	   9.357
#define BODY_SIGMA 1.318
#define TAIL_ALPHA 1.1

/* Draws a number above 0 and below 1. */
static double uniform(struct rng *rng)
{
	return ((double)(rng_next(rng) >> 11) + 0.5) / 9007199254740992.0;
}

/* Draws from the standard normal distribution, by Box and Muller (the second number is not used). */
static double normal(struct rng *rng)
{
	double radius = sqrt(-2 * log(uniform(rng)));

	return radius * cos(2 * M_PI * uniform(rng));
}

static uint32_t draw_bytes(struct rng *rng)
{
	double bytes;

	if (uniform(rng) < BODY_SHARE) {
		do
			bytes = exp(BODY_MU + BODY_SIGMA * normal(rng));
		while (bytes >= POPULATION_CUT);
	} else {
		double left = pow((double)POPULATION_CUT / POPULATION_BYTES_MAX, TAIL_ALPHA);

		bytes = POPULATION_CUT * pow(1 - uniform(rng) * (1 - left), -1 / TAIL_ALPHA);
	}
	return (uint32_t)bytes;
}

static int by_directory(const void *left, const void *right)
{
	const struct cached_file *a = left, *b = right;

	if (a->directory != b->directory)
		return a->directory < b->directory ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

uint64_t population_directories(uint32_t second_level)
{
	return 1 + POPULATION_LEVEL_1 * (1 + (uint64_t)second_level);
}

struct population population_make(uint64_t archive_bytes, uint32_t second_level, uint64_t seed)
{
	struct population all = { .seed = seed, .second_level = second_level };
	struct rng rng = { .state = seed };
	uint64_t used = ustar_overhead_bytes(population_directories(second_level)) +
			USTAR_RECORD; /* room for the padding */
	size_t room = 0;

	for (;;) {
		struct cached_file file = { .bytes = draw_bytes(&rng), .number = all.count };

		file.directory = (uint32_t)rng_below(&rng, POPULATION_LEVEL_1 * second_level);
		used += ustar_file_bytes(file.bytes);
		if (used > archive_bytes || all.count == UINT32_MAX)
			break;
		if (all.count == room) {
			room = room * 2 + 1024;
			all.files = must_alloc(realloc(all.files, room * sizeof(*all.files)));
		}
		all.files[all.count++] = file;
		all.bytes += file.bytes;
	}
	if (all.count > 0)
		qsort(all.files, all.count, sizeof(*all.files), by_directory);
	return all;
}

void population_name(const struct population *all, const struct cached_file *file,
		     char name[POPULATION_NAME_BYTES])
{
	snprintf(name, POPULATION_NAME_BYTES, POPULATION_TOP "/%02X/%02X/%08X",
		 file->directory / all->second_level, file->directory % all->second_level,
		 file->number);
}

uint64_t population_contents(const struct population *all, const struct cached_file *file)
{
	return all->seed + ((uint64_t)1 << 32) + file->number;
}
