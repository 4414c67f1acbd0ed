// SPDX-License-Identifier: BSD-2-Clause
/* The generator's own CPU time outside the kernel; see own_cpu.h. */
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>

#include "fail.h"
#include "results.h"
#include "own_cpu.h"
#include "phases.h"

#define CPUS_MAX 8192 /* more than Linux can have on x86-64 or Arm */

static int64_t begun_ns, begun_own_ns; /* of the present phase */
static int64_t all_ns,
	all_own_ns; /* sums over finished phases: possible CPU time, and own CPU time */

static int64_t own_ns_of(int who)
{
	struct rusage used;

	if (getrusage(who, &used) != 0)
		fail_errno("cannot be read", "the CPU time");
	return (int64_t)used.ru_utime.tv_sec * 1000000000 + (int64_t)used.ru_utime.tv_usec * 1000;
}

static int64_t own_ns(void)
{
	return own_ns_of(RUSAGE_SELF) + own_ns_of(RUSAGE_CHILDREN);
}

static int64_t cpus_allowed(void)
{
	static unsigned long set[CPUS_MAX / (8 * sizeof(unsigned long))]; /* zeroes */

	if (sched_getaffinity(0, sizeof(set), (cpu_set_t *)set) != 0)
		fail_errno("cannot be read", "the CPU affinity");
	return CPU_COUNT_S(sizeof(set), (cpu_set_t *)set);
}

static double percent(int64_t part, int64_t whole)
{
	return whole > 0 ? 100 * (double)part / (double)whole : 0.0;
}

void own_cpu_begin(void)
{
	begun_own_ns = own_ns();
	begun_ns = now_ns();
}

double own_cpu_end(unsigned long threads)
{
	int64_t cpus = cpus_allowed();
	int64_t at_once = threads < (unsigned long)cpus ? (int64_t)threads : cpus;
	int64_t possible_ns = (now_ns() - begun_ns) * at_once, used_ns = own_ns() - begun_own_ns;

	all_ns += possible_ns;
	all_own_ns += used_ns;
	return percent(used_ns, possible_ns);
}

void own_cpu_report(void)
{
	double own_s = (double)all_own_ns / 1e9, share = percent(all_own_ns, all_ns);

	printf("own CPU time outside the kernel: %.3f s, %.1f %% of the possible CPU time\n", own_s,
	       share);
	results_row("", "\"own_user_cpu_s\":%.3f,\"own_user_cpu_pct\":%.2f", own_s, share);
}
