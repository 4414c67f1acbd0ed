// SPDX-License-Identifier: BSD-2-Clause
/* Mean, standard deviation and 95 % confidence interval; see stats.h. */
#include <math.h>

#include "stats.h"

#define KEPT_MIN 3

void samples_add(struct samples *samples, double value)
{
	/* Welford's running sums: no large squares are subtracted from each other */
	double difference = value - samples->mean;

	samples->count++;
	samples->mean += difference / (double)samples->count;
	samples->squares += difference * (value - samples->mean);
}

double samples_mean(const struct samples *samples)
{
	return samples->mean;
}

double samples_deviation(const struct samples *samples)
{
	return sqrt(samples->squares / (double)(samples->count - 1));
}

/* Two-sided 95 % quantile of Student's t; above 30 degrees by Cornish-Fisher, good to 0.001. */
static double student_t(unsigned long degrees)
{
	static const double table[] = {
		12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
		2.201,	2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
		2.080,	2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
	};
	const double z = 1.959964;

	if (degrees <= sizeof(table) / sizeof(table[0]))
		return table[degrees - 1];
	return z + (z * z * z + z) / (4.0 * (double)degrees);
}

double samples_half_width(const struct samples *samples)
{
	return student_t(samples->count - 1) * samples_deviation(samples) /
	       sqrt((double)samples->count);
}

struct samples samples_without(const double *values, unsigned long count, unsigned long first)
{
	struct samples kept = { 0 };

	for (unsigned long i = first; i < count; i++)
		samples_add(&kept, values[i]);
	return kept;
}

unsigned long stats_leave_out(const double *values, unsigned long count, double part)
{
	for (unsigned long first = 1; first <= count / 2 && count - first >= KEPT_MIN; first++) {
		struct samples kept = samples_without(values, count, first);

		if (samples_half_width(&kept) <= part * samples_mean(&kept))
			return first;
	}
	return 0;
}
