// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that append to one file past the page cache, each with a descriptor of its own: every append waits
 * for the disk with the file locked.
 *
 *   append_storm FILE THREADS APPENDS     each thread makes APPENDS of 4 KiB; all begin together
 *
 * Prints one JSON object: appends made, each thread's wall time added up, that of the whole, and the time that the
 * threads ran or were kept from running, by the kernel's account.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 64
#define BLOCK	    4096

static int appends;
static const char *path;
static pthread_barrier_t all_there;
static unsigned long long wall_ns, run_ns;

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* Of this thread: on a CPU and waiting for one (Documentation/scheduler/sched-stats.rst). */
static unsigned long long ran_ns(void)
{
	unsigned long long on_ns, queued_ns;
	FILE *in = fopen("/proc/thread-self/schedstat", "r");

	if (!in || fscanf(in, "%llu %llu", &on_ns, &queued_ns) != 2) {
		perror("append_storm: schedstat");
		exit(1);
	}
	fclose(in);
	return on_ns + queued_ns;
}

static void *storm(void *block)
{
	int file = open(path, O_CREAT | O_WRONLY | O_APPEND | O_DIRECT, 0644);
	unsigned long long ran_before_ns, begin_ns;

	pthread_barrier_wait(&all_there);
	ran_before_ns = ran_ns();
	begin_ns = now_ns();
	for (int i = 0; i < appends; i++)
		if (write(file, block, BLOCK) != BLOCK) {
			perror("append_storm: write");
			exit(1);
		}
	__atomic_fetch_add(&wall_ns, now_ns() - begin_ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&run_ns, ran_ns() - ran_before_ns, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	unsigned long long begin_ns;
	void *block;
	int count;

	if (argc != 4)
		return 2;
	count = atoi(argv[2]);
	appends = atoi(argv[3]);
	path = argv[1];
	if (count < 1 || count > MAX_THREADS || posix_memalign(&block, BLOCK, BLOCK)) {
		perror("append_storm");
		return 1;
	}
	memset(block, 'a', BLOCK);
	if (pthread_barrier_init(&all_there, NULL, count + 1))
		return 1;
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, storm, block))
			return 1;
	begin_ns = now_ns();
	pthread_barrier_wait(&all_there);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("{\"appends\":%d,\"thread_wall_ns\":%llu,\"wall_ns\":%llu,\"run_ns\":%llu}\n",
	       count * appends, wall_ns, now_ns() - begin_ns, run_ns);
	return 0;
}
