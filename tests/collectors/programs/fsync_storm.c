// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that create files in one directory and sync each: waits for the directory and for the journal or log.
 *
 *   fsync_storm DIR THREADS FILES     each thread makes FILES files of its own
 *
 * Prints one JSON object: files made, and each thread's wall time added up.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 64

static int files;
static unsigned long long wall_ns;

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void *storm(void *number)
{
	unsigned long long begin_ns = now_ns();
	char name[64];

	for (int i = 0; i < files; i++) {
		int fd;

		snprintf(name, sizeof(name), "f%d-%d", (int)(long)number, i);
		fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0644);
		if (fd < 0 || write(fd, name, sizeof(name)) != sizeof(name) || fsync(fd) ||
		    close(fd)) {
			perror(name);
			exit(1);
		}
	}
	__atomic_fetch_add(&wall_ns, now_ns() - begin_ns, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	int count;

	if (argc != 4)
		return 2;
	count = atoi(argv[2]);
	files = atoi(argv[3]);
	if (count < 1 || count > MAX_THREADS || chdir(argv[1])) {
		perror("fsync_storm");
		return 1;
	}
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, storm, (void *)i))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("{\"files\":%d,\"thread_wall_ns\":%llu}\n", count * files, wall_ns);
	return 0;
}
