/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file of JSON lines that always ends on a whole line.
 *
 * Lines are gathered in memory, as each write may take a millisecond (a guest's file system is its host's) and
 * lines come in while time bins wait to be emptied.
 */
#ifndef SEEKMETER_LINES_H
#define SEEKMETER_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct line_file {
	int fd;
	long long end; /* after the last whole line */
	char *gathered;
	size_t bytes, room;
};

/* Creates NAME in the directory; 0, or -1 with errno. */
int lines_open(struct line_file *file, int dir_fd, const char *name);
/* Gathers one line (with its newline). False: it is not taken, as nothing could be written for long. */
bool lines_append(struct line_file *file, const char *line, size_t bytes);
/* Writes what is gathered. False: it could not be written whole, is not there at all, and is kept for the next time. */
bool lines_flush(struct line_file *file);
/* False: what was gathered is lost. */
bool lines_close(struct line_file *file);

#endif
