// SPDX-License-Identifier: BSD-2-Clause
/*
 * The trigger `call`: the longest single call (max_ns) of a row of table `call` took as long as the limit, or longer.
 *
 * max_ns is exact: no bucket of the histogram decides. A call counts when it has ended, whatever file system it was on, and
 * the kernel's sums are read when their time bin is over: the trigger fires up to a bin (100 ms) and some tens of
 * milliseconds after the call ended; never while it is under way.
 */
#include "call_triggers.h"

#include <string.h>

#include "recorder/trigger_kind.h"

#define ANY CALL_NAMES

static const char *const names[CALL_NAMES] = {
	[CALL_READ] = "read",
	[CALL_WRITE] = "write",
	[CALL_OPEN] = "open",
	[CALL_CLOSE] = "close",
	[CALL_STAT] = "stat",
	[CALL_READDIR] = "readdir",
	[CALL_UNLINK] = "unlink",
	[CALL_RENAME] = "rename",
	[CALL_MKDIR] = "mkdir",
	[CALL_RMDIR] = "rmdir",
	[CALL_LINK] = "link",
	[CALL_SYMLINK] = "symlink",
	[CALL_TRUNCATE] = "truncate",
	[CALL_FALLOCATE] = "fallocate",
	[CALL_FSYNC] = "fsync",
	[CALL_FDATASYNC] = "fdatasync",
	[CALL_SYNC] = "sync",
	[CALL_SYNCFS] = "syncfs",
	[CALL_SYNC_FILE_RANGE] = "sync_file_range",
	[CALL_COPY] = "copy",
	[CALL_READAHEAD] = "readahead",
	[CALL_ACCESS] = "access",
	[CALL_READLINK] = "readlink",
	[CALL_SETATTR] = "setattr",
	[CALL_XATTR] = "xattr",
	[CALL_MMAP] = "mmap",
	[CALL_MSYNC] = "msync",
	[CALL_IO_URING] = "io_uring",
	[CALL_AIO] = "aio",
	[CALL_URING_READ] = "uring_read",
	[CALL_URING_WRITE] = "uring_write",
	[CALL_URING_FSYNC] = "uring_fsync",
	[CALL_AIO_READ] = "aio_read",
	[CALL_AIO_WRITE] = "aio_write",
	[CALL_AIO_FSYNC] = "aio_fsync",
	[CALL_FAULT_READ] = "fault_read",
	[CALL_FAULT_WRITE] = "fault_write",
};

static bool parse(struct trigger *trigger, char *rest)
{
	char *colon = strchr(rest, ':');

	if (!colon)
		return false;
	*colon = 0;
	trigger->number = ANY;
	for (int i = 0; i < CALL_NAMES; i++)
		if (!strcmp(names[i], rest))
			trigger->number = i;
	if (trigger->number == ANY && strcmp(rest, "any"))
		return false;
	return trigger_parse_limit(trigger, colon + 1);
}

static const struct trigger_kind call_kind = {
	.name = "call",
	.syntax = "call:KIND:NS (KIND: any, read, write, fsync, fdatasync, open… as in table call)",
	.needs = "calls",
	.parse = parse,
};

void call_triggers_row(const struct call_record *row)
{
	static const char *const targets[] = { "the file system under test", "another file system",
					       "an unknown file system" };
	struct trigger *trigger;

	for_each_trigger(trigger, &call_kind)
	{
		if (row->max_ns < trigger->limit ||
		    (trigger->number != ANY && trigger->number != row->call))
			continue;
		trigger->hold_ns = TRIGGER_HOLD_NS + row->length_ns;
		trigger_report(trigger, row->max_ns, "%s on %s took %.3f ms", names[row->call],
			       targets[row->target], row->max_ns / 1e6);
	}
}

REGISTER_TRIGGER(call_kind)
