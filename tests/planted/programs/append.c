// SPDX-License-Identifier: BSD-2-Clause
// Append blocks to a file, each made durable or not.
//
//     append FILE BLOCKS BYTES none|fsync|osync [THINK_US]      BLOCKS 0: until killed
//
// THINK_US: the program sleeps so long before each block.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	long blocks = atol(argv[2]);
	size_t bytes = strtoul(argv[3], NULL, 10);
	int is_osync = !strcmp(argv[4], "osync"), is_fsync = !strcmp(argv[4], "fsync");
	useconds_t think_us = argc > 5 ? strtoul(argv[5], NULL, 10) : 0;
	char *block = malloc(bytes);
	int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | (is_osync ? O_SYNC : 0), 0644);
	if (!block || file < 0) {
		perror("append");
		return 1;
	}
	memset(block, 'x', bytes);
	for (long i = 0; blocks == 0 || i < blocks; i++) {
		if (think_us)
			usleep(think_us);
		if (write(file, block, bytes) != (ssize_t)bytes || (is_fsync && fsync(file))) {
			perror("append: write");
			return 1;
		}
	}
	return 0;
}
