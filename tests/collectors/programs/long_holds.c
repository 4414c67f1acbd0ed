// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that hold one lock for long (some 100 us) and copy meanwhile, so that the others spin for it.
 *
 *   long_holds pipe SECONDS FILE        a writer and a reader of one pipe: its mutex (FILE is not used)
 *   long_holds file SECONDS FILE        as many writers of one file as there are CPUs: its inode's rwsem
 *
 * How long each hold lasts is drawn anew: with holds of one length the threads change places in a fixed rhythm, and a
 * sampling timer that falls into step with it finds the same thread spinning every time.
 *
 * Each thread stays on a CPU and, where that is allowed, gives it to no ordinary task: threads that a busy machine runs in
 * turns would not meet at a lock. Prints one JSON object: when all of them ran (CLOCK_MONOTONIC), and for how much of that
 * time they had no CPU, in ns of a thread.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 64
#define BYTES	    (1 << 20) /* what an unprivileged user may make a pipe hold */

static int fds[2];
static bool file;
static unsigned long long end_ns;
static pthread_barrier_t ready;

static unsigned long long clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* The number'th CPU that we may use. */
static void stay(int number)
{
	cpu_set_t allowed, mine;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	number %= CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || number--)
			continue;
		CPU_ZERO(&mine);
		CPU_SET(cpu, &mine);
		if (sched_setaffinity(0, sizeof(mine), &mine))
			perror("long_holds: sched_setaffinity");
	}
}

static void come_first(void)
{
	struct sched_param lowest = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &lowest))
		perror("long_holds: sched_setscheduler");
}

static void *work(void *argument)
{
	int number = (int)(long)argument;
	unsigned short seed[3] = { 1, 2, number };
	char *data = malloc(BYTES);

	if (!data)
		exit(1);
	memset(data, number, BYTES);
	stay(number);
	come_first();
	pthread_barrier_wait(&ready);
	while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
		size_t bytes = BYTES / 4 + nrand48(seed) % (BYTES / 4 * 3);
		ssize_t n = file	 ? pwrite(fds[0], data, bytes, 0)
			    : number & 1 ? write(fds[1], data, bytes)
					 : read(fds[0], data, bytes);

		(void)n; /* a full or empty pipe is as good */
	}
	free(data);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	unsigned long long begin_ns, cpu_ns;
	long long off_ns;
	long count;

	if (argc != 4) {
		fprintf(stderr, "usage: long_holds pipe|file SECONDS FILE\n");
		return 2;
	}
	file = !strcmp(argv[1], "file");
	count = file ? sysconf(_SC_NPROCESSORS_ONLN) : 2;
	if (count > MAX_THREADS)
		count = MAX_THREADS;
	if (file)
		fds[0] = open(argv[3], O_RDWR | O_CREAT, 0600);
	else if (pipe2(fds, O_NONBLOCK) || fcntl(fds[1], F_SETPIPE_SZ, BYTES) < 0)
		fds[0] = -1;
	if (fds[0] < 0 || pthread_barrier_init(&ready, NULL, count + 1)) {
		perror("long_holds");
		return 1;
	}
	end_ns = clock_ns(CLOCK_MONOTONIC) + strtoull(argv[2], NULL, 10) * 1000000000ULL;
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			return 1;
	pthread_barrier_wait(&ready);
	begin_ns = clock_ns(CLOCK_MONOTONIC);
	cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	for (long i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
	off_ns = count * (end_ns - begin_ns) - cpu_ns;
	printf("{\"begin_ns\":%llu,\"end_ns\":%llu,\"off_ns\":%lld}\n", begin_ns, end_ns,
	       off_ns > 0 ? off_ns : 0);
	return 0;
}
