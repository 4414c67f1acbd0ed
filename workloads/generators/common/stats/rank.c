// SPDX-License-Identifier: BSD-2-Clause
/* Spearman's rank correlation; see rank.h. */
#include <math.h>
#include <stdlib.h>

#include "common/session/fail.h"
#include "rank.h"

struct place {
	uint64_t value;
	size_t index;
};

static int by_value(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	return (a->value > b->value) - (a->value < b->value);
}

/* Ranks less their mean. */
static double *ranks_of(const uint64_t *values, size_t count)
{
	struct place *places = must_alloc(malloc(count * sizeof(*places)));
	double *ranks = must_alloc(malloc(count * sizeof(*ranks)));
	double middle = ((double)count - 1) / 2;

	for (size_t i = 0; i < count; i++)
		places[i] = (struct place){ .value = values[i], .index = i };
	qsort(places, count, sizeof(*places), by_value);
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && places[end].value == places[i].value; end++)
			;
		for (size_t j = i; j < end; j++)
			ranks[places[j].index] = ((double)i + (double)end - 1) / 2 - middle;
	}
	free(places);
	return ranks;
}

double rank_correlation(const uint64_t *a, const uint64_t *b, size_t count)
{
	double products = 0, squares_a = 0, squares_b = 0;
	double *ranks_a, *ranks_b;

	if (count < 2)
		return NAN;
	ranks_a = ranks_of(a, count);
	ranks_b = ranks_of(b, count);
	for (size_t i = 0; i < count; i++) {
		products += ranks_a[i] * ranks_b[i];
		squares_a += ranks_a[i] * ranks_a[i];
		squares_b += ranks_b[i] * ranks_b[i];
	}
	free(ranks_a);
	free(ranks_b);
	if (squares_a <= 0 || squares_b <= 0)
		return NAN;
	return products / sqrt(squares_a) / sqrt(squares_b);
}
