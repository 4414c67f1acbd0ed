// SPDX-License-Identifier: BSD-2-Clause
/*
 * Counts the events and process names in files of blktrace, and the missing events by gaps in their sequence numbers:
 * the blktrace program itself counts none of these.
 */
#include "blktrace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct counts {
	unsigned long long events, names, missing;
};

static int count_file(const char *path, struct counts *counts)
{
	uint32_t numbered = 0, last = 0;
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
			counts->names++;
		else if (head.action != BLK_TN_TIMESTAMP)
			counts->events++;
		if (head.action & BLK_TC_ACT(BLK_TC_NOTIFY))
			continue; /* a notify record has no sequence number */
		numbered++;
		last = head.sequence > last ? head.sequence : last;
	}
	fclose(file);
	counts->missing += last > numbered ? last - numbered : 0;
	return 0;
}

int count_files(char **paths)
{
	struct counts counts = { 0 };

	for (; *paths; paths++) {
		if (count_file(*paths, &counts))
			return 1;
	}
	printf("{\"events\":%llu,\"names\":%llu,\"missing\":%llu}\n", counts.events, counts.names,
	       counts.missing);
	return 0;
}
