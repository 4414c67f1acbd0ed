// SPDX-License-Identifier: BSD-2-Clause
// Create files and remove them again, in several threads, in one directory for all or one for each.
//
//     create DIRECTORY THREADS FILES shared|own BYTES [keep]
//
// FILES: of each thread. keep: the files stay.

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *directory;
static long files;
static int is_shared, is_kept;
static size_t bytes;
static char block[1 << 20];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void *create(void *argument)
{
	long number = (long)argument;
	char folder[4096], name[8192];
	snprintf(folder, sizeof(folder), "%s/%ld", directory, is_shared ? 0 : number);
	mkdir(folder, 0755);
	for (long i = 0; i < files; i++) {
		snprintf(name, sizeof(name), "%s/file-%ld-%ld", folder, number, i);
		int file = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
		if (file < 0 || write(file, block, bytes) != (ssize_t)bytes)
			fail(name);
		close(file);
		if (!is_kept && unlink(name))
			fail(name);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 6)
		return 2;
	directory = argv[1];
	long threads = atol(argv[2]);
	files = atol(argv[3]);
	is_shared = !strcmp(argv[4], "shared");
	bytes = strtoul(argv[5], NULL, 10);
	is_kept = argc > 6;
	if (bytes > sizeof(block) || threads < 1 || threads > 64)
		return 2;
	pthread_t all[64];
	for (long i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, create, (void *)i))
			fail("create: thread");
	for (long i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	return 0;
}
