// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads fighting for one pipe's mutex: WRITERS + READERS threads, each for SECONDS or OPERATIONS attempts.
 *
 *   pipe_storm WRITERS READERS SECONDS [OPERATIONS]
 *
 * The pipe doesn't block (an attempt on a full or empty pipe fails, but takes the mutex all the same), so every
 * thread makes its attempts whatever the others do. Prints one JSON object: attempts and each thread's wall time.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <sys/resource.h>
#include <unistd.h>

#define MAX_THREADS 64

static int ends[2];
static unsigned long long seconds, operations;
static pthread_barrier_t ready;

struct worker {
	pthread_t thread;
	int number, writes;
	unsigned long long attempts, begin_ns, end_ns;
};

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* Neighbours on different CPUs: left alone, the scheduler may run all threads in turn on one, without a fight. */
static void spread(int number)
{
	cpu_set_t allowed, mine;
	int place = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	number %= CPU_COUNT(&allowed);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || place++ != number)
			continue;
		CPU_ZERO(&mine);
		CPU_SET(cpu, &mine);
		if (sched_setaffinity(0, sizeof(mine), &mine))
			perror("pipe_storm: sched_setaffinity");
	}
}

static void *work(void *argument)
{
	struct worker *me = argument;
	char data[4096] = "storm"; /* a page: copied with the mutex held */
	unsigned long long end_ns;

	spread(me->number);
	pthread_barrier_wait(&ready);
	me->begin_ns = now_ns();
	end_ns = me->begin_ns + seconds * 1000000000ULL;
	do {
		ssize_t n = me->writes ? write(ends[1], data, sizeof(data))
				       : read(ends[0], data, sizeof(data));

		(void)n; /* a full or empty pipe is as good */
		me->attempts++;
	} while (operations ? me->attempts < operations
			    : (me->attempts & 255) || now_ns() < end_ns);
	me->end_ns = now_ns();
	return NULL;
}

int main(int argc, char **argv)
{
	struct worker workers[MAX_THREADS] = { 0 };
	unsigned long long attempts = 0, wall_ns = 0, first_ns = ~0ULL, last_ns = 0;
	struct rusage used;
	int writers, count;

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: pipe_storm WRITERS READERS SECONDS [OPERATIONS]\n");
		return 2;
	}
	writers = atoi(argv[1]);
	count = writers + atoi(argv[2]);
	seconds = strtoull(argv[3], NULL, 10);
	operations = argc == 5 ? strtoull(argv[4], NULL, 10) : 0;
	if (count < 1 || count > MAX_THREADS || pipe2(ends, O_NONBLOCK) ||
	    pthread_barrier_init(&ready, NULL, count)) {
		perror("pipe_storm");
		return 1;
	}
	for (int i = 0; i < count; i++) {
		workers[i].number = i;
		workers[i].writes = i < writers;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
			fprintf(stderr, "pipe_storm: no thread\n");
			return 1;
		}
	}
	for (int i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		attempts += workers[i].attempts;
		wall_ns += workers[i].end_ns - workers[i].begin_ns;
		if (workers[i].begin_ns < first_ns)
			first_ns = workers[i].begin_ns;
		if (workers[i].end_ns > last_ns)
			last_ns = workers[i].end_ns;
	}
	if (getrusage(RUSAGE_SELF, &used)) {
		perror("pipe_storm: getrusage");
		return 1;
	}
	printf("{\"pid\":%d,\"attempts\":%llu,\"threads\":%d,\"thread_wall_ns\":%llu,\"begin_ns\":%llu,\"end_ns\":%llu,",
	       (int)getpid(), attempts, count, wall_ns, first_ns, last_ns);
	printf("\"cpu_ns\":%llu,\"switches\":%llu}\n",
	       (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000ULL +
		       (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000ULL,
	       (unsigned long long)(used.ru_nvcsw + used.ru_nivcsw));
	return 0;
}
