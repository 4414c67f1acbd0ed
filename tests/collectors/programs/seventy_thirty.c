// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs two functions for equal pieces of work, 7 of 10 pieces by lot in the first one, as the phase "mixed"; then the
 * first one alone, as the phase "alone". By lot, as samples could fall into step with a regular turn. Each phase takes
 * so much CPU time, whatever the CPU and the compiler make of a piece. Says what CPU time it used, by its own clock,
 * in ns.
 *
 *	seventy_thirty MILLISECONDS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t sum;

static inline __attribute__((always_inline)) void work(void)
{
	for (int i = 0; i < 10000; i++)
		sum += i;
}

static __attribute__((noinline, noclone, no_icf, aligned(64))) void spend_seventy(void)
{
	work();
}

static __attribute__((noinline, noclone, no_icf, aligned(64))) void spend_thirty(void)
{
	work();
}

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t))
		exit(1);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void phase(FILE *file, const char *name, uint64_t start_ns)
{
	if (fprintf(file,
		    "{\"name\":\"%s\",\"start_ns\":%llu,\"end_ns\":%llu,\"ops\":0,\"bytes\":0}\n",
		    name, (unsigned long long)start_ns,
		    (unsigned long long)now(CLOCK_MONOTONIC)) < 0 ||
	    fflush(file))
		exit(1);
}

int main(int argc, char **argv)
{
	const char *path = getenv("SEEKMETER_PHASES");
	uint64_t phase_ns = argc == 2 ? strtoull(argv[1], NULL, 10) * 1000000 : 0;
	unsigned short lot[3] = { 1, 2, 3 };
	FILE *file = path ? fopen(path, "a") : NULL;
	uint64_t start_ns = now(CLOCK_MONOTONIC), end_ns;

	if (!phase_ns || !file)
		return 2;
	end_ns = now(CLOCK_PROCESS_CPUTIME_ID) + phase_ns;
	while (now(CLOCK_PROCESS_CPUTIME_ID) < end_ns) {
		if (nrand48(lot) % 10 < 7)
			spend_seventy();
		else
			spend_thirty();
	}
	phase(file, "mixed", start_ns);
	start_ns = now(CLOCK_MONOTONIC);
	end_ns = now(CLOCK_PROCESS_CPUTIME_ID) + phase_ns;
	while (now(CLOCK_PROCESS_CPUTIME_ID) < end_ns)
		spend_seventy();
	phase(file, "alone", start_ns);
	printf("%llu\n", (unsigned long long)now(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}
