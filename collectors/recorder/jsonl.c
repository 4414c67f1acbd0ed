// SPDX-License-Identifier: BSD-2-Clause
/* A file of JSON lines that always ends on a whole line. */
#include "jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "room.h"

#define MOST_GATHERED (4UL << 20)

int lines_open(struct line_file *file, int dir_fd, const char *name)
{
	memset(file, 0, sizeof(*file));
	file->fd = new_file(dir_fd, name);
	return file->fd < 0 ? -1 : 0;
}

bool lines_append(struct line_file *file, const char *line, size_t bytes)
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
	/* Room is taken now, so that what is gathered can be written whatever else is written before. */
	if (!room_take(bytes))
		return false;
	memcpy(file->gathered + file->bytes, line, bytes);
	file->bytes += bytes;
	return true;
}

bool lines_flush(struct line_file *file)
{
	size_t done = 0;

	while (done < file->bytes) {
		ssize_t n = pwrite(file->fd, file->gathered + done, file->bytes - done,
				   file->end + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += n;
	}
	if (done < file->bytes) {
		/* Disk full. If even the cut fails, the next attempt overwrites the torn line. */
		if (done && ftruncate(file->fd, file->end))
			return false;
		return false;
	}
	room_settle(done);
	file->end += done;
	file->bytes = 0;
	return true;
}

bool lines_close(struct line_file *file)
{
	bool whole = true;

	if (file->fd >= 0) {
		whole = lines_flush(file);
		close(file->fd);
	}
	free(file->gathered);
	memset(file, 0, sizeof(*file));
	file->fd = -1;
	return whole;
}
