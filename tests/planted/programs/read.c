// SPDX-License-Identifier: BSD-2-Clause
// Read a file: in order or at random, through the page cache or not, in several threads.
//
//     read FILE THREADS READS BYTES order|random cached|direct [ROUNDS]
//
// READS: of each thread, in each round; 0: once through the file, each thread its part. At random: each thread its
// own sequence, the same in each run.

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int file;
static long threads, reads, rounds;
static size_t bytes;
static off_t blocks;
static int is_random;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void *read_all(void *argument)
{
	long number = (long)argument;
	uint64_t state = 0x9E3779B97F4A7C15ull * (number + 1);
	char *buffer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	if (!buffer)
		fail("read: memory");
	long of_thread = reads ? reads : blocks / threads;
	off_t start = blocks / threads * number;
	for (long round = 0; round < rounds; round++) {
		for (long i = 0; i < of_thread; i++) {
			state = state * 6364136223846793005ull + 1442695040888963407ull;
			off_t block = is_random ? (off_t)((state >> 33) % blocks)
						: (start + i) % blocks;
			if (pread(file, buffer, bytes, block * (off_t)bytes) != (ssize_t)bytes)
				fail("read: pread");
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 7)
		return 2;
	threads = atol(argv[2]);
	reads = atol(argv[3]);
	bytes = strtoul(argv[4], NULL, 10);
	is_random = !strcmp(argv[5], "random");
	rounds = argc > 7 ? atol(argv[7]) : 1;
	file = open(argv[1], O_RDONLY | (!strcmp(argv[6], "direct") ? O_DIRECT : 0));
	struct stat status;
	if (file < 0 || fstat(file, &status))
		fail("read: open");
	blocks = status.st_size / (off_t)bytes;
	if (threads < 1 || threads > 64 || !blocks)
		return 2;
	pthread_t all[64];
	for (long i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, read_all, (void *)i))
			fail("read: thread");
	for (long i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	return 0;
}
