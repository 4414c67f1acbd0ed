/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of JSON lines that always ends on a whole line. */
#ifndef SEEKMETER_LINES_H
#define SEEKMETER_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct line_file {
	int fd;
	long long end; /* after the last whole line */
};

/* Creates NAME in the directory; 0, or -1 with errno. */
int lines_open(struct line_file *file, int dir_fd, const char *name);
/* Appends one line (with its newline). False: it could not be written whole, and isn't there at all. */
bool lines_append(struct line_file *file, const char *line, size_t bytes);
void lines_close(struct line_file *file);

#endif
