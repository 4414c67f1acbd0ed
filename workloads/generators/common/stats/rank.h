// SPDX-License-Identifier: BSD-2-Clause
/* How well does one order of things match another? */
#ifndef GENERATORS_RANK_H
#define GENERATORS_RANK_H

#include <stddef.h>
#include <stdint.h>

/*
 * Spearman's rank correlation of pairs: 1 the same order, 0 none in common, -1 the reverse. Equal values share the
 * mean of their ranks. NAN for fewer than two pairs, and where all values of one side are equal.
 */
double rank_correlation(const uint64_t *a, const uint64_t *b, size_t count);

#endif
