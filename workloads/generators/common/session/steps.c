// SPDX-License-Identifier: BSD-2-Clause
/* The steps of a workload with one step at a time; see steps.h. */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "results.h"
#include "own_cpu.h"
#include "phases.h"
#include "remount.h"
#include "steps.h"

#define PROGRESS_SECONDS INT64_C(5)
#define NS_PER_SECOND	 INT64_C(1000000000)
#define CLOCK_EVERY	 256 /* operations */

static const char *step;
static int64_t start_ns;
static int64_t progress_ns;
static bool measured;
static bool warm;

void step_begin(const char *name)
{
	step = name;
	measured = true;
	own_cpu_begin();
	phase_announce(name, now_ns());
	start_ns = progress_ns = phase_begin();
}

void step_begin_unmeasured(const char *name)
{
	step_begin(name);
	measured = false;
}

void step_progress(uint64_t done)
{
	if (done % CLOCK_EVERY == 0)
		step_progress_of_many(done);
}

void step_progress_of_many(uint64_t done)
{
	int64_t now = now_ns();

	if (now - progress_ns < PROGRESS_SECONDS * NS_PER_SECOND)
		return;
	progress_ns = now;
	printf("      %s: %" PRIu64 " so far\n", step, done);
	fflush(stdout);
}

double step_end(uint64_t ops, uint64_t bytes)
{
	int64_t end_ns = now_ns();
	double seconds = (double)(end_ns - start_ns) / (double)NS_PER_SECOND;

	phase_done(step, start_ns, end_ns, ops, bytes);
	printf("%-22s %9" PRIu64 " in %.3f s, %.0f a second", step, ops, seconds,
	       seconds > 0 ? (double)ops / seconds : 0.0);
	if (measured) /* 1 thread: of a child process and its reader, one waits for the other */
		printf(", own CPU %.1f %%", own_cpu_end(1));
	printf("\n");
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
	results_row("", "\"cold_caches\":\"%s\"", warm ? "no" : "yes");
	own_cpu_report();
}
