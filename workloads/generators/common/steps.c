// SPDX-License-Identifier: BSD-2-Clause
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>

#include "fail.h"
#include "figures.h"
#include "phases.h"
#include "remount.h"
#include "steps.h"

#define PROGRESS_SECONDS INT64_C(5)
#define NS_PER_SECOND	 INT64_C(1000000000)
#define CLOCK_EVERY	 256 /* operations */

static const char *step;
static int64_t start_ns;
static int64_t said_ns;
static bool warm;

void step_begin(const char *name)
{
	step = name;
	start_ns = said_ns = now_ns();
}

void step_progress(uint64_t done)
{
	if (done % CLOCK_EVERY == 0)
		step_progress_of_many(done);
}

void step_progress_of_many(uint64_t done)
{
	int64_t now = now_ns();

	if (now - said_ns < PROGRESS_SECONDS * NS_PER_SECOND)
		return;
	said_ns = now;
	printf("      %s: %" PRIu64 " so far\n", step, done);
	fflush(stdout);
}

double step_end(uint64_t ops, uint64_t bytes)
{
	int64_t end_ns = now_ns();
	double seconds = (double)(end_ns - start_ns) / (double)NS_PER_SECOND;

	phase_done(step, start_ns, end_ns, ops, bytes);
	printf("%-22s %9" PRIu64 " in %.3f s, %.0f a second\n", step, ops, seconds,
	       seconds > 0 ? (double)ops / seconds : 0.0);
	fflush(stdout);
	return seconds;
}

void steps_make_cold(void)
{
	const char *why = remount();

	if (why == NULL)
		return;
	if (!warm)
		printf("caches are not cold: %s\n", why);
	fflush(stdout);
	warm = true;
}

void steps_finish(void)
{
	struct rusage used;
	double user_s;

	if (getrusage(RUSAGE_SELF, &used) != 0)
		fail_errno("cannot be asked for", "the CPU time");
	user_s = (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec / 1e6;
	printf("own CPU time outside the kernel: %.3f s\n", user_s);
	figures_row("", "\"cold_caches\":\"%s\",\"own_user_cpu_s\":%.3f", warm ? "no" : "yes",
		    user_s);
}
