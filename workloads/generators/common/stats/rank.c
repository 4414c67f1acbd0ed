// SPDX-License-Identifier: BSD-2-Clause
/* Spearman's rank correlation; see rank.h. */
#include <math.h>
#include <stdlib.h>

#include "common/session/fail.h"
#include "rank.h"

struct indexed_value {
	uint64_t value;
	size_t index;
};

static int by_value(const void *left, const void *right)
{
	const struct indexed_value *a = left, *b = right;

	return (a->value > b->value) - (a->value < b->value);
}

/* Returns the rank of each value, minus the mean rank. */
static double *ranks_of(const uint64_t *values, size_t count)
{
	struct indexed_value *sorted = must_alloc(malloc(count * sizeof(*sorted)));
	double *ranks = must_alloc(malloc(count * sizeof(*ranks)));
	double mean_rank = ((double)count - 1) / 2;

	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct indexed_value){ .value = values[i], .index = i };
	qsort(sorted, count, sizeof(*sorted), by_value);
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && sorted[end].value == sorted[i].value; end++)
			;
		for (size_t j = i; j < end; j++)
			ranks[sorted[j].index] = ((double)i + (double)end - 1) / 2 - mean_rank;
	}
	free(sorted);
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
