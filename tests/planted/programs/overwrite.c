// SPDX-License-Identifier: BSD-2-Clause
// Write over blocks of a file that exists, in order and again from its begin.
//
//     overwrite FILE BLOCKS BYTES none|dsync

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	long blocks = atol(argv[2]);
	size_t bytes = strtoul(argv[3], NULL, 10);
	char *block = malloc(bytes);
	int file = open(argv[1], O_WRONLY | (strcmp(argv[4], "dsync") ? 0 : O_DSYNC));
	struct stat status;
	if (!block || file < 0 || fstat(file, &status) || status.st_size < (off_t)bytes) {
		perror("overwrite");
		return 1;
	}
	memset(block, 'x', bytes);
	for (long i = 0; i < blocks; i++)
		if (pwrite(file, block, bytes, i % (status.st_size / bytes) * bytes) !=
		    (ssize_t)bytes) {
			perror("overwrite: write");
			return 1;
		}
	return 0;
}
