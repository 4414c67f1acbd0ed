// SPDX-License-Identifier: BSD-2-Clause
// Remove every STEPth file of those that programs/create.c made, in several threads, in one directory or one each.
//
//     unlink DIRECTORY THREADS FILES STEP shared|own [FOLDER [FIRST]]
//
// FILES: that each thread removes. shared: all in DIRECTORY/FOLDER (0), from the FIRSTth (0) removed file on.
// Each removal looks its file up under the directory's lock, so of a file whose inode is not in memory the lock is
// held while the disk reads.

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *directory;
static long threads, files, step, folder, first;
static int is_shared;

static void *remove_files(void *argument)
{
	long number = (long)argument;
	char name[4096];
	for (long i = 0; i < files; i++) {
		if (is_shared)
			snprintf(name, sizeof(name), "%s/%ld/file-%ld-%ld", directory, folder,
				 folder, (first + i * threads + number) * step);
		else
			snprintf(name, sizeof(name), "%s/%ld/file-%ld-%ld", directory, number,
				 number, i * step);
		if (unlink(name)) {
			perror(name);
			exit(1);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 6)
		return 2;
	directory = argv[1];
	threads = atol(argv[2]);
	files = atol(argv[3]);
	step = atol(argv[4]);
	is_shared = !strcmp(argv[5], "shared");
	folder = argc > 6 ? atol(argv[6]) : 0;
	first = argc > 7 ? atol(argv[7]) : 0;
	if (threads < 1 || threads > 64)
		return 2;
	pthread_t all[64];
	for (long i = 0; i < threads; i++)
		if (pthread_create(&all[i], NULL, remove_files, (void *)i)) {
			perror("unlink: thread");
			return 1;
		}
	for (long i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	return 0;
}
