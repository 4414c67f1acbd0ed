// SPDX-License-Identifier: BSD-2-Clause
/*
 * known_faults FILE PAGES: faults on a mapped file that nobody has read: reads of its first PAGES pages, stores to the next
 * ones, and, when these are clean again, stores to the same ones once more. Prints as JSON how many pages were not in
 * memory before (mincore()), the major faults as the kernel counts them, and the time of the accesses.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L

static volatile char *map;
static long pages;

static void must(int ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(1);
	}
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long major_faults(void)
{
	struct rusage usage;

	must(!getrusage(RUSAGE_SELF, &usage), "getrusage");
	return usage.ru_majflt;
}

static long absent(long first)
{
	static unsigned char in_memory[1 << 16];
	long count = 0;

	must(!mincore((void *)(map + first * PAGE), pages * PAGE, in_memory), "mincore");
	for (long i = 0; i < pages; i++)
		count += !(in_memory[i] & 1);
	return count;
}

/* Loads from, or stores to, each of these pages. */
static void touch(const char *name, long first, int store)
{
	long absent_before = absent(first), major = major_faults();
	long long begin_ns = now_ns(), ns;

	for (long i = first; i < first + pages; i++) {
		if (store)
			map[i * PAGE] = 'x';
		else
			(void)map[i * PAGE];
	}
	ns = now_ns() - begin_ns;
	printf("\"%s\":{\"absent\":%ld,\"major\":%ld,\"ns\":%lld},", name, absent_before,
	       major_faults() - major, ns);
}

int main(int argc, char **argv)
{
	int fd = argc == 3 ? open(argv[1], O_RDWR) : -1;

	must(fd >= 0, "open");
	pages = atol(argv[2]);
	map = mmap(NULL, 2 * pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must(map != MAP_FAILED, "mmap");
	/* One page a fault. */
	must(!madvise((void *)map, 2 * pages * PAGE, MADV_RANDOM), "madvise");
	printf("{");
	major_faults(); /* its code is in memory, as printf()'s */
	touch("read", 0, 0);
	touch("write", pages, 1);
	must(!msync((void *)map, 2 * pages * PAGE, MS_SYNC), "msync");
	touch("again", pages, 1);
	printf("\"pages\":%ld}\n", pages);
	return 0;
}
