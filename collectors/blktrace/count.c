// SPDX-License-Identifier: BSD-2-Clause
/*
 * How many events, and how many process names, are in files of blktrace: the program itself counts neither.
 */
#include "blktrace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int count_file(const char *path, unsigned long long *events, unsigned long long *names)
{
	static char buffer[1 << 20];
	struct blk_io_trace head;
	FILE *file = fopen(path, "re");

	if (!file) {
		fprintf(stderr, "blk-tracer: %s: %s\n", path, strerror(errno));
		return -1;
	}
	setvbuf(file, buffer, _IOFBF, sizeof(buffer));
	while (fread(&head, sizeof(head), 1, file) == 1) {
		char pdu[UINT16_MAX];

		if ((head.magic & 0xffffff00) != BLK_IO_TRACE_MAGIC) {
			fprintf(stderr, "blk-tracer: %s: is no file of blktrace\n", path);
			fclose(file);
			return -1;
		}
		if (fread(pdu, 1, head.pdu_len, file) != head.pdu_len)
			break; /* a cut end */
		if (head.action == BLK_TN_PROCESS)
			++*names;
		else if (head.action != BLK_TN_TIMESTAMP)
			++*events;
	}
	fclose(file);
	return 0;
}

int count_files(char **paths)
{
	unsigned long long events = 0, names = 0;

	for (; *paths; paths++) {
		if (count_file(*paths, &events, &names))
			return 1;
	}
	printf("{\"events\":%llu,\"names\":%llu}\n", events, names);
	return 0;
}
