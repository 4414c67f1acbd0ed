// SPDX-License-Identifier: BSD-2-Clause
/* Mean and spread of a few observations, in the observations' unit. */
#ifndef GENERATORS_STATS_H
#define GENERATORS_STATS_H

struct samples {
	unsigned long count;
	double mean;
	double squares; /* sum of squared differences from the mean */
};

void samples_add(struct samples *samples, double value);
double samples_mean(const struct samples *samples);
/* Standard deviation (n - 1); needs two observations. */
double samples_deviation(const struct samples *samples);
/* Half the width of the mean's 95 % confidence interval (Student's t); needs two observations. */
double samples_half_width(const struct samples *samples);

/*
 * Returns how many of the first of COUNT observations to leave out, at least one and at most half, so that the half
 * width of the others is at most PART of their mean and at least three are left. 0: no such number.
 */
unsigned long stats_leave_out(const double *values, unsigned long count, double part);
/* Returns the observations without the FIRST first ones. */
struct samples samples_without(const double *values, unsigned long count, unsigned long first);

#endif
