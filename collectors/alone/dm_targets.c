// SPDX-License-Identifier: BSD-2-Clause
/* Target types of a device-mapper volume; see dm_targets.h. */
#include "dm_targets.h"

#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ANSWER_BYTES (256U << 10)

/* Of a table only the types are read: the parameters of crypt may hold the key. */
static void read_types(const char *answer, char text[TEXT_MOST])
{
	const struct dm_ioctl *header = (const struct dm_ioctl *)answer;
	size_t at = header->data_start;

	for (unsigned int i = 0; i < header->target_count; i++) {
		const struct dm_target_spec *target = (const void *)(answer + at);
		size_t bytes = strlen(text);
		char type[sizeof(target->target_type) + 1] = "", padded[TEXT_MOST + 2], word[32];

		if (at + sizeof(*target) > ANSWER_BYTES)
			return;
		memcpy(type, target->target_type, sizeof(target->target_type));
		snprintf(padded, sizeof(padded), " %s ", text);
		snprintf(word, sizeof(word), " %s ", type);
		if (!strstr(padded, word))
			snprintf(text + bytes, TEXT_MOST - bytes, "%s%s", bytes ? " " : "", type);
		if (!target->next)
			return;
		at = header->data_start + target->next;
	}
}

void dm_targets(const char *dev, char text[TEXT_MOST])
{
	unsigned int major, minor;
	struct dm_ioctl *header;
	int control;

	text[0] = 0;
	if (sscanf(dev, "%u:%u", &major, &minor) != 2)
		return;
	control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		return;
	header = calloc(1, ANSWER_BYTES);
	if (header) {
		header->version[0] = DM_VERSION_MAJOR;
		header->data_size = ANSWER_BYTES;
		header->data_start = sizeof(*header);
		/* Without this flag the status of a thin pool commits its metadata. */
		header->flags = DM_NOFLUSH_FLAG;
		header->dev = (minor & 0xff) | major << 8 |
			      (unsigned long long)(minor & ~0xffU) << 12;
		if (!ioctl(control, DM_TABLE_STATUS, header))
			read_types((const char *)header, text);
		free(header);
	}
	close(control);
}
