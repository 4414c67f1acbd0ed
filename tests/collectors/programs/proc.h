// SPDX-License-Identifier: BSD-2-Clause
/* What /proc knows of a thread of this process. */
#ifndef TESTS_PROC_H
#define TESTS_PROC_H

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROC_TEXT 256

/* Reads /proc/TID/FILE as text; returns -1 and errno. */
static inline int read_of(int tid, const char *file, char text[PROC_TEXT])
{
	char path[64];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, file);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	length = read(fd, text, PROC_TEXT - 1);
	close(fd);
	text[length > 0 ? length : 0] = '\0';
	return length < 0 ? -1 : 0;
}

/*
 * The system call that it sleeps in; -1 if it has not left its CPU: until then those that wait for what it holds may
 * spin. "syscall" says "running" so long (wait_task_inactive() in lib/syscall.c).
 */
static inline long sleeps_in_call(int tid)
{
	char text[PROC_TEXT];
	long call;

	return read_of(tid, "syscall", text) == 0 && sscanf(text, "%ld", &call) == 1 ? call : -1;
}

#endif
