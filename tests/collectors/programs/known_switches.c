// SPDX-License-Identifier: BSD-2-Clause
/*
 * Three threads that know how often they were switched out: two wake each other over pipes, one sleeps by a timer.
 *
 *   known_switches ROUNDS SLEEPS
 *
 * Prints a JSON array of the threads: tid; voluntary and involuntary switches so far, by the kernel's count. Each has one more
 * of the first kind, at its end.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct known {
	int tid;
	long rounds, voluntary, involuntary;
	int from, to;
	char first; /* begins with a write */
};

static void note_switches(struct known *known)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	known->tid = gettid();
	known->voluntary = usage.ru_nvcsw;
	known->involuntary = usage.ru_nivcsw;
}

static void *play(void *argument)
{
	struct known *known = argument;
	char byte = 0;

	for (long i = 0; i < known->rounds; i++) {
		if (known->first && write(known->to, &byte, 1) != 1)
			exit(1);
		if (read(known->from, &byte, 1) != 1)
			exit(1);
		if (!known->first && write(known->to, &byte, 1) != 1)
			exit(1);
	}
	note_switches(known);
	return NULL;
}

static void *doze(void *argument)
{
	const struct timespec millisecond = { .tv_nsec = 1000000 };
	struct known *known = argument;

	for (long i = 0; i < known->rounds; i++)
		nanosleep(&millisecond, NULL);
	note_switches(known);
	return NULL;
}

int main(int argc, char **argv)
{
	struct known known[3] = { 0 };
	pthread_t threads[3];
	int ping[2], pong[2];

	if (argc != 3 || pipe(ping) || pipe(pong))
		return 1;
	known[0] = (struct known){
		.rounds = atol(argv[1]), .from = pong[0], .to = ping[1], .first = 1
	};
	known[1] = (struct known){ .rounds = atol(argv[1]), .from = ping[0], .to = pong[1] };
	known[2].rounds = atol(argv[2]);
	for (int i = 0; i < 3; i++)
		if (pthread_create(&threads[i], NULL, i < 2 ? play : doze, &known[i]))
			return 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 3; i++)
		printf("%s{\"tid\": %d, \"voluntary\": %ld, \"involuntary\": %ld}", i ? ", " : "[",
		       known[i].tid, known[i].voluntary, known[i].involuntary);
	puts("]");
	return 0;
}
