// SPDX-License-Identifier: BSD-2-Clause
#include "lines.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER_BYTES (1 << 20)
#define LINE_BYTES   (1 << 12) /* no event's line is longer: it is skipped */

struct lines {
	int fd;
	bool skipping; /* the rest of a line that is too long */
	size_t filled;
	char *buffer;
};

/* Gives out the whole lines in the buffer and keeps the rest. */
static void take_lines(struct lines *lines, struct reader *reader)
{
	char *at = lines->buffer, *end = lines->buffer + lines->filled, *newline;

	while ((newline = memchr(at, '\n', end - at))) {
		if (lines->skipping || newline - at > LINE_BYTES)
			reader->counts.strange++;
		else
			read_line(reader, (struct text){ at, newline });
		lines->skipping = false;
		at = newline + 1;
	}
	if (end - at > LINE_BYTES)
		lines->skipping = true;
	if (lines->skipping)
		at = end;
	lines->filled = end - at;
	memmove(lines->buffer, at, lines->filled);
}

/* A last line without its end is whole if it ends in a bracket, as most do; half a number looks like a whole one. */
static void take_last(struct lines *lines, struct reader *reader)
{
	struct text line = { lines->buffer, lines->buffer + lines->filled };

	if (!lines->filled && !lines->skipping)
		return;
	if (lines->filled && line.end[-1] == ']')
		read_line(reader, line);
	else
		reader->counts.cut++;
}

int read_lines(int fd, struct reader *reader)
{
	struct lines lines = { .fd = fd, .buffer = malloc(BUFFER_BYTES) };
	int error = 0;
	ssize_t got;

	if (!lines.buffer)
		return ENOMEM;
	do {
		got = read(fd, lines.buffer + lines.filled, BUFFER_BYTES - lines.filled);
		if (got > 0) {
			reader->counts.bytes += got;
			lines.filled += got;
			take_lines(&lines, reader);
		} else if (got < 0 && errno != EINTR) {
			error = errno;
		}
	} while (!error && got != 0 && !ferror(reader->out));
	if (!error)
		take_last(&lines, reader);
	free(lines.buffer);
	return error;
}
