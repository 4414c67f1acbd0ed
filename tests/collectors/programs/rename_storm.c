// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads renaming files between directories of one file system: sleeping waits for directory and rename locks.
 *
 *   rename_storm DIR THREADS RENAMES      each thread makes RENAMES renames (an even number) of its own file
 *
 * Prints one JSON object: renames made, and each thread's wall time added up.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 64

static int renames;
static unsigned long long wall_ns;

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* It may be there from the run before. */
static int make_dir(const char *name)
{
	return mkdir(name, 0755) && errno != EEXIST;
}

static void *storm(void *argument)
{
	unsigned long long begin_ns = now_ns();
	char names[2][32];

	for (int i = 0; i < 2; i++)
		snprintf(names[i], sizeof(names[i]), "d%d/f%d", i, (int)(long)argument);
	for (int i = 0; i < renames; i++)
		if (rename(names[i & 1], names[!(i & 1)])) {
			perror("rename");
			exit(1);
		}
	__atomic_fetch_add(&wall_ns, now_ns() - begin_ns, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	int count;

	if (argc != 4) {
		fprintf(stderr, "usage: rename_storm DIR THREADS RENAMES\n");
		return 2;
	}
	count = atoi(argv[2]);
	renames = atoi(argv[3]);
	if (count < 1 || count > MAX_THREADS || chdir(argv[1]) || make_dir("d0") ||
	    make_dir("d1")) {
		perror("rename_storm");
		return 1;
	}
	for (long i = 0; i < count; i++) {
		char name[32];
		int fd;

		snprintf(name, sizeof(name), "d0/f%ld", i);
		fd = open(name, O_CREAT | O_WRONLY, 0644);
		if (fd < 0 || close(fd))
			return 1;
	}
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, storm, (void *)i))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("{\"renames\":%d,\"thread_wall_ns\":%llu}\n", count * renames, wall_ns);
	return 0;
}
