// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that map and unmap memory of one process until they are killed.
 *
 *   mmap_storm THREADS
 *
 * They fight for the process's mmap_lock as writers that a fatal signal may interrupt: kill -9 in the middle
 * makes waits end without the lock.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (32UL << 20) /* long enough to be waited for when the kill comes */

static void *storm(void *unused)
{
	for (;;) {
		void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		if (memory == MAP_FAILED || munmap(memory, BYTES))
			return unused;
	}
}

int main(int argc, char **argv)
{
	pthread_t thread;

	for (int i = argc > 1 ? atoi(argv[1]) : 4; i > 1; i--)
		if (pthread_create(&thread, NULL, storm, NULL))
			return 1;
	storm(NULL);
	return 0;
}
