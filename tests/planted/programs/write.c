// SPDX-License-Identifier: BSD-2-Clause
// Write into files that exist, or grow: through the page cache or not, in several threads.
//
//     write FILE THREADS MIB BYTES cached|direct one|own [ROUNDS [anew]]
//
// MIB: of each thread, in each round, over the same place; ROUNDS 0: until killed. one: all threads write one file, each
// its own part; own: FILE.0, FILE.1, …
// anew: the file is cut to nothing before each round, so that its blocks are allocated again.

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *name;
static long mib, rounds;
static size_t bytes;
static int flags, is_one, is_anew;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void *write_all(void *argument)
{
	long number = (long)argument;
	char own[4096];
	snprintf(own, sizeof(own), is_one ? "%s" : "%s.%ld", name, number);
	int file = open(own, O_WRONLY | O_CREAT | flags, 0644);
	char *buffer = aligned_alloc(4096, bytes);
	if (file < 0 || !buffer)
		fail(own);
	memset(buffer, 'x', bytes);
	off_t length = (off_t)mib << 20, start = is_one ? number * length : 0;
	for (long round = 0; rounds == 0 || round < rounds; round++) {
		if (is_anew && ftruncate(file, 0))
			fail("write: ftruncate");
		for (off_t at = 0; at < length; at += bytes)
			if (pwrite(file, buffer, bytes, start + at) != (ssize_t)bytes)
				fail("write: pwrite");
	}
	close(file);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 7)
		return 2;
	name = argv[1];
	long threads = atol(argv[2]);
	mib = atol(argv[3]);
	bytes = strtoul(argv[4], NULL, 10);
	flags = !strcmp(argv[5], "direct") ? O_DIRECT : 0;
	is_one = !strcmp(argv[6], "one");
	rounds = argc > 7 ? atol(argv[7]) : 1;
	is_anew = argc > 8;
	if (threads < 1 || threads > 64 || bytes % 4096)
		return 2;
	pthread_t all[64];
	for (long i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, write_all, (void *)i))
			fail("write: thread");
	for (long i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	return 0;
}
