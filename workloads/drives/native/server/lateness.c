// SPDX-License-Identifier: BSD-2-Clause
#include "lateness.h"

/* 32 bins for each power of two; below 32 one for each value. */
static unsigned int bin_of(uint64_t value)
{
	unsigned int shift;

	if (value < 32)
		return (unsigned int)value;
	shift = 63 - (unsigned int)__builtin_clzll(value) - 5;
	return (shift + 1) * 32 + (unsigned int)(value >> shift & 31);
}

static int64_t middle_of(unsigned int bin)
{
	unsigned int shift;

	if (bin < 32)
		return bin;
	shift = bin / 32 - 1;
	return (int64_t)(((uint64_t)(32 + bin % 32) << shift) + (1ULL << shift) / 2);
}

void lateness_add(struct lateness *lateness, int64_t late_ns)
{
	if (late_ns < lateness->earliest_ns)
		lateness->earliest_ns = late_ns;
	if (late_ns < 0)
		late_ns = 0;
	lateness->bins[bin_of((uint64_t)late_ns)]++;
	lateness->replies++;
	lateness->sum_ns += late_ns;
	if (late_ns > lateness->most_ns)
		lateness->most_ns = late_ns;
	if (late_ns > 500000)
		lateness->over_500us++;
}

int64_t lateness_share_ns(const struct lateness *lateness, double share)
{
	uint64_t wanted = (uint64_t)(share * (double)lateness->replies);
	uint64_t seen = 0;

	for (unsigned int bin = 0; bin < LATENESS_BINS; bin++) {
		seen += lateness->bins[bin];
		if (seen > wanted)
			return middle_of(bin);
	}
	return lateness->most_ns;
}
