// SPDX-License-Identifier: BSD-2-Clause
/*
 * splitmix64 (Steele, Lea, Flood, OOPSLA 2014): a small generator whose sequence depends on the
 * seed alone, not on the C library, so that the same seed gives the same operations anywhere.
 */
#ifndef GENERATORS_RNG_H
#define GENERATORS_RNG_H

#include <stdint.h>

struct rng {
	uint64_t state; /* set to the seed */
};

static inline uint64_t rng_next(struct rng *rng)
{
	uint64_t z = (rng->state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* A number from 0 to limit - 1. The bias is below limit / 2^64: nothing at the limits used here. */
static inline uint64_t rng_below(struct rng *rng, uint64_t limit)
{
	return rng_next(rng) % limit;
}

#endif
