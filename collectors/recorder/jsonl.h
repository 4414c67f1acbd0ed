/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A file of JSON lines that always ends on a whole line.
 *
 * Lines are gathered in memory and written together: a write may take a millisecond (a guest's file system is its
 * host's), and lines are added while time bins wait to be emptied.
 */
#ifndef SEEKMETER_JSONL_H
#define SEEKMETER_JSONL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct jsonl {
	int fd;
	long long end; /* after the last whole line */
	char *gathered;
	size_t bytes, room;
};

/* Creates NAME in the directory; 0, or -1 with errno. */
int jsonl_open(struct jsonl *file, int dir_fd, const char *name);
/* Gathers one line, with its newline. False: the line is dropped, as too much waits to be written. */
bool jsonl_append(struct jsonl *file, const char *line, size_t bytes);
/* Writes the gathered lines. False: they could not be written whole; none is in the file, and all are kept. */
bool jsonl_flush(struct jsonl *file);
/* False: the gathered lines are lost. */
bool jsonl_close(struct jsonl *file);

/* Writes text as a JSON string, in quotes. */
void json_string(FILE *out, const char *text);

#endif
