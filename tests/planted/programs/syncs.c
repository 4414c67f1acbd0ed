// SPDX-License-Identifier: BSD-2-Clause
// Make a file system, or all of them, durable again and again, until killed.
//
//     syncs DIRECTORY sync|syncfs [THINK_US]
//
// THINK_US: the program sleeps so long before each.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	int directory = open(argv[1], O_RDONLY | O_DIRECTORY);
	int is_one = !strcmp(argv[2], "syncfs");
	useconds_t think_us = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	if (directory < 0) {
		perror("syncs");
		return 1;
	}
	for (;;) {
		if (think_us)
			usleep(think_us);
		if (!is_one) {
			sync();
		} else if (syncfs(directory)) {
			perror("syncs: syncfs");
			return 1;
		}
	}
}
