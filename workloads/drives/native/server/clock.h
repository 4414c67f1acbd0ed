/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The model's clock against CLOCK_MONOTONIC: it starts at 0 with the server and runs `scale` times as fast (TIME=).
 */
#ifndef SEEKMETER_DRIVE_CLOCK_H
#define SEEKMETER_DRIVE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000LL

struct model_clock {
	int64_t start_ns; /* CLOCK_MONOTONIC */
	double scale;
};

static inline int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static inline int64_t to_model_ns(const struct model_clock *clock, int64_t ns)
{
	return (int64_t)((double)(ns - clock->start_ns) * clock->scale);
}

static inline int64_t to_real_ns(const struct model_clock *clock, int64_t model_ns)
{
	if (model_ns == INT64_MAX)
		return INT64_MAX;
	return clock->start_ns + (int64_t)((double)model_ns / clock->scale);
}

#endif
