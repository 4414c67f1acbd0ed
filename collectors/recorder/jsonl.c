// SPDX-License-Identifier: BSD-2-Clause
/* A file of JSON lines that always ends on a whole line; see jsonl.h. */
#include "jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "room.h"

#define MOST_GATHERED (4UL << 20)

int jsonl_open(struct jsonl *file, int dir_fd, const char *name)
{
	memset(file, 0, sizeof(*file));
	file->fd = new_file(dir_fd, name);
	return file->fd < 0 ? -1 : 0;
}

bool jsonl_append(struct jsonl *file, const char *line, size_t bytes)
{
	if (bytes > MOST_GATHERED - file->bytes)
		return false;
	if (bytes > file->room - file->bytes) {
		size_t room = (file->bytes + bytes) * 2;
		char *more = realloc(file->gathered, room);

		if (!more)
			return false;
		file->gathered = more;
		file->room = room;
	}
	/* Room is taken now: what is gathered can be written, whatever other files take until then. */
	if (!room_take(bytes))
		return false;
	memcpy(file->gathered + file->bytes, line, bytes);
	file->bytes += bytes;
	return true;
}

bool jsonl_flush(struct jsonl *file)
{
	size_t done = 0;

	while (done < file->bytes) {
		ssize_t n = pwrite(file->fd, file->gathered + done, file->bytes - done,
				   file->end + done);

		if (n < 0 && (errno == EINTR || (errno == ENOSPC && room_free())))
			continue;
		if (n <= 0)
			break;
		done += n;
	}
	if (done < file->bytes) {
		/* Disk full: the torn line is cut off. If the cut fails, the next attempt overwrites the line. */
		if (done)
			(void)!ftruncate(file->fd, file->end);
		return false;
	}
	room_settle(done);
	file->end += done;
	file->bytes = 0;
	return true;
}

bool jsonl_close(struct jsonl *file)
{
	bool whole = true;

	if (file->fd >= 0) {
		whole = jsonl_flush(file);
		close(file->fd);
	}
	free(file->gathered);
	memset(file, 0, sizeof(*file));
	file->fd = -1;
	return whole;
}

void json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = *text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}
