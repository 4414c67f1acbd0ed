// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that fight for one inode's lock.
 *
 *   create_storm DIR THREADS TIMES [sync]      making and removing files in one directory; with sync each is
 *                                              written to and synced before it goes
 *   create_storm FILE THREADS TIMES write      writing to one file, which makes no inode
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_THREADS 64

#define WRITE_BYTES (64 << 10)

static int times, synced;
static const char *file;

static void *storm(void *argument)
{
	char name[32];

	snprintf(name, sizeof(name), "f%d", (int)(long)argument);
	for (int i = 0; i < times; i++) {
		int fd = open(name, O_CREAT | O_WRONLY, 0644);

		if (fd < 0 || (synced && (write(fd, name, sizeof(name)) < 0 || fsync(fd))) ||
		    close(fd) || unlink(name)) {
			perror("create_storm");
			exit(1);
		}
	}
	return NULL;
}

static void *write_storm(void *unused)
{
	int fd = open(file, O_WRONLY);
	char *block = calloc(1, WRITE_BYTES);

	for (int i = 0; i < times; i++)
		if (fd < 0 || !block || pwrite(fd, block, WRITE_BYTES, 0) != WRITE_BYTES) {
			perror("create_storm");
			exit(1);
		}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	int count = argc > 3 ? atoi(argv[2]) : 0;

	if (argc > 4 && !strcmp(argv[4], "write"))
		file = argv[1];
	if (count < 1 || count > MAX_THREADS || (!file && chdir(argv[1]))) {
		fprintf(stderr, "usage: create_storm DIR|FILE THREADS TIMES [sync|write]\n");
		return 2;
	}
	times = atoi(argv[3]);
	synced = argc > 4 && !strcmp(argv[4], "sync");
	for (long i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, file ? write_storm : storm, (void *)i))
			return 1;
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
