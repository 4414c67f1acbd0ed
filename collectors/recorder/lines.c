// SPDX-License-Identifier: BSD-2-Clause
/* A file of JSON lines that always ends on a whole line. */
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int lines_open(struct line_file *file, int dir_fd, const char *name)
{
	file->end = 0;
	file->fd = openat(dir_fd, name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
	return file->fd < 0 ? -1 : 0;
}

bool lines_append(struct line_file *file, const char *line, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = pwrite(file->fd, line + done, bytes - done, file->end + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += n;
	}
	if (done < bytes) {
		/* Disk full. If even the cut fails, the next line overwrites the torn one. */
		if (done && ftruncate(file->fd, file->end))
			return false;
		return false;
	}
	file->end += bytes;
	return true;
}

void lines_close(struct line_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}
