// SPDX-License-Identifier: BSD-2-Clause
/*
 * Pairs of threads, a pair for each CPU, that wake each other over pipes and compute in between.
 *
 *   switch_storm SWITCHES SECONDS     in all, about SWITCHES a second where nothing traces it
 *
 * The computing is a fixed number of turns of a loop, found at the start: so a tracer makes the rounds fewer, and does
 * not eat into idle time. Prints one JSON object: rounds (of two switches), and wall time.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MAX_CPUS     64
#define CALIBRATE_NS 200000000ULL
#define TURNS	     20000000ULL

struct pair {
	int cpu, ping[2], pong[2];
	pthread_t threads[2];
	unsigned long long rounds;
};

static struct pair pairs[MAX_CPUS];
static unsigned long long turns; /* of the loop, before each wake */
static volatile int is_over;

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void compute(unsigned long long count)
{
	for (volatile unsigned long long i = 0; i < count; i++)
		;
}

static void pin(int cpu)
{
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only))
		perror("switch_storm: sched_setaffinity");
}

static void *call(void *argument)
{
	struct pair *pair = argument;
	char byte = 0;

	pin(pair->cpu);
	while (!is_over) {
		compute(turns);
		if (write(pair->ping[1], &byte, 1) != 1 || read(pair->pong[0], &byte, 1) != 1)
			break;
		pair->rounds++;
	}
	close(pair->ping[1]);
	return NULL;
}

static void *answer(void *argument)
{
	struct pair *pair = argument;
	char byte;

	pin(pair->cpu);
	while (read(pair->ping[0], &byte, 1) == 1) {
		compute(turns);
		if (write(pair->pong[1], &byte, 1) != 1)
			break;
	}
	return NULL;
}

/* All pairs for so long; returns rounds. */
static unsigned long long storm(unsigned long long ns)
{
	unsigned long long rounds = 0;
	cpu_set_t allowed;
	int count = 0;

	sched_getaffinity(0, sizeof(allowed), &allowed);
	is_over = 0;
	for (int cpu = 0; cpu < CPU_SETSIZE && count < MAX_CPUS; cpu++) {
		struct pair *pair = &pairs[count];

		if (!CPU_ISSET(cpu, &allowed))
			continue;
		count++;
		*pair = (struct pair){ .cpu = cpu };
		if (pipe(pair->ping) || pipe(pair->pong) ||
		    pthread_create(&pair->threads[0], NULL, call, pair) ||
		    pthread_create(&pair->threads[1], NULL, answer, pair)) {
			perror("switch_storm");
			exit(1);
		}
	}
	usleep(ns / 1000);
	is_over = 1;
	for (int i = 0; i < count; i++) {
		pthread_join(pairs[i].threads[0], NULL);
		pthread_join(pairs[i].threads[1], NULL);
		rounds += pairs[i].rounds;
		close(pairs[i].ping[0]);
		close(pairs[i].pong[0]);
		close(pairs[i].pong[1]);
	}
	return rounds;
}

int main(int argc, char **argv)
{
	unsigned long long begin_ns, turns_ns, switch_ns, wanted_ns, rounds, cpus;

	if (argc != 3)
		return 2;
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	begin_ns = now_ns();
	compute(TURNS);
	turns_ns = now_ns() - begin_ns;
	switch_ns = CALIBRATE_NS * cpus / (2 * storm(CALIBRATE_NS) + 1);
	wanted_ns = 1000000000ULL * cpus / strtoull(argv[1], NULL, 10);
	turns = wanted_ns > switch_ns ? (wanted_ns - switch_ns) * TURNS / turns_ns : 0;
	begin_ns = now_ns();
	rounds = storm(strtoull(argv[2], NULL, 10) * 1000000000ULL);
	printf("{\"pid\":%d,\"rounds\":%llu,\"wall_ns\":%llu}\n", (int)getpid(), rounds,
	       now_ns() - begin_ns);
	return 0;
}
