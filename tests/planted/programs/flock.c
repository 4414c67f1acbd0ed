// SPDX-License-Identifier: BSD-2-Clause
// Take a lock of a file, write into the file, and give the lock up, again and again.
//
//     flock FILE TIMES HOLD_US THINK_US       TIMES 0: until killed
//
// HOLD_US: the program sleeps so long with the lock; THINK_US: without it.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	long times = atol(argv[2]);
	useconds_t hold_us = strtoul(argv[3], NULL, 10), think_us = strtoul(argv[4], NULL, 10);
	static char block[4096];
	int file = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (file < 0) {
		perror("flock");
		return 1;
	}
	for (long i = 0; times == 0 || i < times; i++) {
		if (flock(file, LOCK_EX) ||
		    pwrite(file, block, sizeof(block), 0) != sizeof(block)) {
			perror("flock: write");
			return 1;
		}
		if (hold_us)
			usleep(hold_us);
		flock(file, LOCK_UN);
		if (think_us)
			usleep(think_us);
	}
	return 0;
}
