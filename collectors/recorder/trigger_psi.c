// SPDX-License-Identifier: BSD-2-Clause
/*
 * The trigger `psi`: tasks were stalled for so long within a window (pressure stall information, /proc/pressure).
 *
 * The kernel compares: the trigger is written to the file, which then polls as ready once a window at most. The kernel
 * has these triggers since Linux 5.2, if built with CONFIG_PSI and not told psi=0. Since Linux 6.5 a process without
 * CAP_SYS_RESOURCE, as root in most containers, may set one whose window is a multiple of 2 s; others may set any.
 * Such a one is looked at by the kernel each 2 s, others ten times a window.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "trigger_kind.h"

/* The kernel's own limits (kernel/sched/psi.c). */
#define WINDOW_US_MIN	500000
#define WINDOW_US_MAX	10000000
#define WINDOW_US_PLAIN 2000000 /* multiples of it are taken from anyone */

static bool cut_word(char **rest, char *word, size_t room)
{
	size_t bytes = strcspn(*rest, ":");

	if (!(*rest)[bytes] || bytes >= room)
		return false;
	memcpy(word, *rest, bytes);
	word[bytes] = 0;
	*rest += bytes + 1;
	return true;
}

static bool parse(struct trigger *trigger, char *rest)
{
	char resource[16], share[16];

	if (!cut_word(&rest, resource, sizeof(resource)) ||
	    !cut_word(&rest, share, sizeof(share)) ||
	    !trigger_number(&rest, ':', &trigger->limit) ||
	    !trigger_number(&rest, 0, &trigger->window_us))
		return false;
	if (strcmp(resource, "io") && strcmp(resource, "memory") && strcmp(resource, "cpu"))
		return false;
	if (strcmp(share, "some") && strcmp(share, "full"))
		return false;
	/* The whole machine is never short of CPU time in full: the kernel counts none. */
	if (!strcmp(resource, "cpu") && !strcmp(share, "full"))
		return false;
	trigger->number = !strcmp(share, "full");
	strcpy(trigger->text, resource);
	trigger->hold_ns = trigger->window_us * 1000 + TRIGGER_HOLD_NS;
	return trigger->window_us >= WINDOW_US_MIN && trigger->window_us <= WINDOW_US_MAX &&
	       trigger->limit <= trigger->window_us;
}

static int start(struct trigger *trigger)
{
	char path[TRIGGER_TEXT + 16], line[80];
	const char *remedy;
	int bytes;

	snprintf(path, sizeof(path), "/proc/pressure/%s", trigger->text);
	bytes = snprintf(line, sizeof(line), "%s %llu %llu", trigger->number ? "full" : "some",
			 (unsigned long long)trigger->limit,
			 (unsigned long long)trigger->window_us);
	trigger->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	/* With the terminating 0. */
	if (trigger->fd >= 0 && write(trigger->fd, line, bytes + 1) == bytes + 1)
		return 0;
	if (errno == ENOENT || errno == EOPNOTSUPP)
		remedy =
			"the kernel has no pressure stall information (PSI); use one with CONFIG_PSI, "
			"started with psi=1";
	else if (errno == EINVAL && trigger->window_us % WINDOW_US_PLAIN)
		remedy =
			"the kernel takes no such trigger of pressure stall information (PSI); without "
			"CAP_SYS_RESOURCE take a window that is a multiple of 2000000 us";
	else
		remedy = strerror(errno);
	return fail(path, remedy);
}

static void tick(struct trigger *trigger, uint64_t now_ns)
{
	struct pollfd file = { .fd = trigger->fd, .events = POLLPRI };

	(void)now_ns;
	if (poll(&file, 1, 0) == 1 && file.revents & POLLPRI)
		trigger_report(trigger, trigger->limit,
			       "%s pressure (%s): %llu us of stall or more within %llu us",
			       trigger->text, trigger->number ? "full" : "some",
			       (unsigned long long)trigger->limit,
			       (unsigned long long)trigger->window_us);
}

static const struct trigger_kind psi_kind = {
	.name = "psi",
	.syntax =
		"psi:io|memory|cpu:some|full:STALL_US:WINDOW_US (a window of 500000 to 10000000, not cpu:full)",
	.parse = parse,
	.start = start,
	.tick = tick,
};

REGISTER_TRIGGER(psi_kind)
