// SPDX-License-Identifier: BSD-2-Clause
/* Writing the log of promises: see log.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "common/session/phases.h"
#include "promises/log.h"

#define LINE_BYTES 128

static int log_fd = -1;
static const char *log_path;

void log_open(const char *path)
{
	log_path = path;
	log_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
	if (log_fd < 0)
		fail_errno("cannot make the log", path);
}

static void write_line(const char *line, size_t length)
{
	ssize_t written;

	do
		written = write(log_fd, line, length);
	while (written < 0 && errno == EINTR);
	if (written != (ssize_t)length) {
		errno = written < 0 ? errno : ENOSPC;
		fail_errno("cannot write the log", log_path);
	}
}

void log_begin(uint64_t threads, uint64_t seed)
{
	char line[LINE_BYTES];

	write_line(line, (size_t)snprintf(line, sizeof(line),
					  "promises 1 %" PRIu64 " %" PRIu64 "\n", threads, seed));
}

void log_line(uint32_t thread, const char *event, ...)
{
	char line[LINE_BYTES];
	int length = snprintf(line, sizeof(line), "%" PRId64 " %" PRIu32 " ", now_ns(), thread);
	va_list arguments;

	va_start(arguments, event);
	length += vsnprintf(line + length, sizeof(line) - (size_t)length, event, arguments);
	va_end(arguments);
	line[length++] = '\n';
	write_line(line, (size_t)length);
}
