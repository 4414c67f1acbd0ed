// SPDX-License-Identifier: BSD-2-Clause
/* The clock of all tables, and what this machine's CPUs allow; see clock.h. */
#include "clock.h"

#include <stdlib.h>
#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

uint64_t monotonic_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t thread_cpu_ns(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

bool emulated_cpus(void)
{
	return getenv("SEEKMETER_EMULATED_CPUS") != NULL;
}
