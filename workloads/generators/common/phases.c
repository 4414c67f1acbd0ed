// SPDX-License-Identifier: BSD-2-Clause
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fail.h"
#include "phases.h"

static const char *phases_path;
static int phases_fd = -1;

int64_t now_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
		fail_errno("cannot be read", "CLOCK_MONOTONIC");
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void phases_open(void)
{
	phases_path = getenv("SEEKMETER_PHASES");
	if (phases_path == NULL || phases_path[0] == '\0')
		return;
	phases_fd = open(phases_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (phases_fd < 0)
		fail_errno("cannot open the phases file ($SEEKMETER_PHASES)", phases_path);
}

void phase_done(const char *name, int64_t start_ns, int64_t end_ns, uint64_t ops, uint64_t bytes)
{
	char line[256];
	int length;

	if (phases_fd < 0)
		return;
	length = snprintf(line, sizeof(line),
			  "{\"name\":\"%s\",\"start_ns\":%" PRId64 ",\"end_ns\":%" PRId64
			  ",\"ops\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n",
			  name, start_ns, end_ns, ops, bytes);
	if (length < 0 || (size_t)length >= sizeof(line))
		fail(EXIT_RUN_FAILED, "phase name '%s' is too long; shorten it in the generator",
		     name);
	if (write(phases_fd, line, (size_t)length) != length)
		fail_errno("cannot write the phase", phases_path);
}
