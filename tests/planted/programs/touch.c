// SPDX-License-Identifier: BSD-2-Clause
// Map a file, and read or write a byte of each of its pages.
//
//     touch FILE PAGES read|write order|apart [ROUNDS]
//
// PAGES: so many of the file's; 0: all. apart: no page is near the one before.

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, APART = 7919 }; // a prime: each page comes once

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	int is_write = !strcmp(argv[3], "write");
	uint64_t step = strcmp(argv[4], "apart") ? 1 : APART;
	long rounds = argc > 5 ? atol(argv[5]) : 1;
	int file = open(argv[1], O_RDWR);
	struct stat status;
	if (file < 0 || fstat(file, &status)) {
		perror("touch: open");
		return 1;
	}
	uint64_t pages = status.st_size / PAGE, count = strtoul(argv[2], NULL, 10);
	volatile char *map =
		mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (map == MAP_FAILED) {
		perror("touch: mmap");
		return 1;
	}
	for (long round = 0; round < rounds; round++)
		for (uint64_t i = 0; i < (count ? count : pages); i++) {
			volatile char *byte = &map[i * step % pages * PAGE];
			if (is_write)
				*byte = 1;
			else
				(void)*byte;
		}
	return 0;
}
