// SPDX-License-Identifier: BSD-2-Clause
/* Spearman's rank correlation: how well two orders of the same files match. */
#ifndef GENERATORS_RANK_H
#define GENERATORS_RANK_H

#include <stddef.h>
#include <stdint.h>

/*
 * Returns the rank correlation of COUNT pairs (a[i], b[i]): 1 the same order, 0 no correlation, -1 the reverse order.
 * Equal values share the mean of their ranks. NAN: fewer than two pairs, or all values of an array are equal.
 */
double rank_correlation(const uint64_t *a, const uint64_t *b, size_t count);

#endif
