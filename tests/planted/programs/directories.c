// SPDX-License-Identifier: BSD-2-Clause
// Make directories, which log a block of metadata each, a hundred in each directory.
//
//     directories DIRECTORY COUNT

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	long count = atol(argv[2]);
	char name[4096];
	for (long i = 0; i < count; i++) {
		if (i % 100 == 0)
			snprintf(name, sizeof(name), "%s/%ld", argv[1], i / 100);
		else
			snprintf(name, sizeof(name), "%s/%ld/%ld", argv[1], i / 100, i % 100);
		if (mkdir(name, 0755)) {
			perror(name);
			return 1;
		}
	}
	return 0;
}
