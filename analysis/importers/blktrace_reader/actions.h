/* SPDX-License-Identifier: BSD-2-Clause */
/* Actions and categories of events: the numbers of linux/blktrace_api.h, which are the file format. */
#ifndef SEEKMETER_BLKTRACE_ACTIONS_H
#define SEEKMETER_BLKTRACE_ACTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define TRACE_MAGIC	0x65617400U
#define TRACE_VERSION	7U
#define ACTION_CGROUP	0x100U /* an 8-byte cgroup id comes first behind the event */
#define CGROUP_ID_BYTES 8

enum action {
	ACTION_QUEUE = 1,
	ACTION_BACK_MERGE,
	ACTION_FRONT_MERGE,
	ACTION_GET_REQUEST,
	ACTION_SLEEP,
	ACTION_REQUEUE,
	ACTION_ISSUE,
	ACTION_COMPLETE,
	ACTION_PLUG,
	ACTION_UNPLUG,
	ACTION_UNPLUG_TIMER,
	ACTION_INSERT,
	ACTION_SPLIT,
	ACTION_BOUNCE,
	ACTION_REMAP,
	ACTION_ABORT,
	ACTION_DRIVER_DATA,
	ACTION_COUNT,
};

/* Categories, above the action. */
enum category {
	CATEGORY_READ = 1 << 16,
	CATEGORY_WRITE = 1 << 17,
	CATEGORY_FLUSH = 1 << 18,
	CATEGORY_SYNC = 1 << 19,
	CATEGORY_PASSTHROUGH = 1 << 25,
	CATEGORY_NOTIFY = 1 << 26,
	CATEGORY_AHEAD = 1 << 27,
	CATEGORY_META = 1 << 28,
	CATEGORY_DISCARD = 1 << 29,
};
#define CATEGORY_FUA (1U << 31)

enum notify { NOTIFY_PROCESS, NOTIFY_TIMESTAMP, NOTIFY_MESSAGE };

static inline bool is_notify(uint32_t action)
{
	return action & CATEGORY_NOTIFY;
}

static inline bool is_timestamp(uint32_t action)
{
	return is_notify(action) && (action & 0xff) == NOTIFY_TIMESTAMP;
}

static inline unsigned int action_number(uint32_t action)
{
	return action & 0xff;
}

#endif
