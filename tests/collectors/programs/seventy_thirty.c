// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs two functions for so many rounds each of 7 and 3 equal pieces of work, as the phase "mixed"; then the
 * first one alone, as the phase "alone". Says what CPU time it used, by its own clock, in ns.
 *
 *	seventy_thirty ROUNDS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t sum;

static inline __attribute__((always_inline)) void work(int pieces)
{
	for (int i = 0; i < pieces * 100000; i++)
		sum += i;
}

static __attribute__((noinline, noclone, no_icf)) void spend_seventy(int pieces)
{
	work(pieces);
}

static __attribute__((noinline, noclone, no_icf)) void spend_thirty(int pieces)
{
	work(pieces);
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
	int rounds = argc == 2 ? atoi(argv[1]) : 0;
	FILE *file = path ? fopen(path, "a") : NULL;
	uint64_t start_ns = now(CLOCK_MONOTONIC);

	if (!rounds || !file)
		return 2;
	for (int i = 0; i < rounds; i++) {
		spend_seventy(7);
		spend_thirty(3);
	}
	phase(file, "mixed", start_ns);
	start_ns = now(CLOCK_MONOTONIC);
	for (int i = 0; i < rounds; i++)
		spend_seventy(5);
	phase(file, "alone", start_ns);
	printf("%llu\n", (unsigned long long)now(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}
