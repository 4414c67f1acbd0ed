// SPDX-License-Identifier: BSD-2-Clause
/*
 * The trigger `log`: a new line of the kernel's log (/dev/kmsg) has a text in it, whatever the case.
 *
 * One read returns one record, "PRIORITY,SEQUENCE,TIME,FLAGS;TEXT", then lines of its dictionary, which are not looked at.
 * The kernel writes bytes that can't be printed as \xHH.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "trigger_kind.h"

#define RECORD_MAX     8192 /* more than the kernel's longest */
#define RECORDS_A_TICK 1000

/* Undoes %25 and %3D: the option has a = behind SPEC. */
static bool parse(struct trigger *trigger, char *rest)
{
	char *to = trigger->text;

	for (; *rest; rest++) {
		if (*rest == '%' && !strncmp(rest, "%25", 3)) {
			*to++ = '%';
			rest += 2;
		} else if (*rest == '%' && !strncmp(rest, "%3D", 3)) {
			*to++ = '=';
			rest += 2;
		} else if (*rest == '%') {
			return false;
		} else {
			*to++ = *rest;
		}
	}
	*to = 0;
	return to > trigger->text;
}

static int start(struct trigger *trigger)
{
	char message[TRIGGER_TEXT];

	trigger->fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (trigger->fd >= 0 && lseek(trigger->fd, 0, SEEK_END) >= 0)
		return 0;
	snprintf(message, sizeof(message),
		 "the kernel's log can't be read: %s; give root CAP_SYSLOG and this device",
		 strerror(errno));
	return fail("/dev/kmsg", message);
}

static void tick(struct trigger *trigger, uint64_t now_ns)
{
	static char record[RECORD_MAX + 1];

	(void)now_ns;
	for (int i = 0; i < RECORDS_A_TICK; i++) {
		ssize_t bytes = read(trigger->fd, record, RECORD_MAX);
		char *text;

		/* Lines were overwritten before they were read: the next read goes on behind the gap. */
		if (bytes < 0 && errno == EPIPE) {
			fail(trigger->shown,
			     "the kernel's log was overwritten before it was read; lines may be missed");
			continue;
		}
		if (bytes <= 0)
			return;
		record[bytes] = 0;
		text = strchr(record, ';');
		if (!text)
			continue;
		text++;
		text[strcspn(text, "\n")] = 0;
		if (strcasestr(text, trigger->text))
			trigger_report(trigger, 0, "the kernel logged: %s", text);
	}
}

static const struct trigger_kind log_kind = {
	.name = "log", .syntax = "log:TEXT", .parse = parse, .start = start, .tick = tick
};

REGISTER_TRIGGER(log_kind)
