// SPDX-License-Identifier: BSD-2-Clause
/*
 * Takes apart one sub-buffer of the kernel's ring buffer, as read from per_cpu/cpuN/trace_pipe_raw.
 *
 * The format is tracefs's own (events/header_page, events/header_event; kernel/trace/ring_buffer.c): the time of
 * the first event, the number of bytes used, then events, each with the time since the one before.
 */
#include "blktrace.h"

#include <string.h>

/* In the word of the bytes used: events were lost before this page; their number stands after the last one. */
#define MISSED_EVENTS (1UL << 31)
#define MISSED_STORED (1UL << 30)

/* Types of events above those that are lengths (in words). */
enum { LONG_EVENT = 0, PADDING = 29, TIME_EXTEND = 30, TIME_STAMP = 31 };

#define TIME_SHIFT 27		  /* an extended time goes on above the event's own bits */
#define TIME_TOP   (0xf8UL << 56) /* what a time stamp has no room for */

struct page_head {
	uint64_t t_ns;
	unsigned long used; /* the kernel's local_t */
};

struct event_head {
	uint32_t type : 5, delta : 27; /* in the kernel's own order of bits */
	uint32_t more;
};

static uint64_t absolute(uint64_t stamp, uint64_t before)
{
	if (before & TIME_TOP) {
		stamp |= before & TIME_TOP;
		if (stamp < before) /* the bits below have rolled over */
			stamp += 1UL << 59;
	}
	return stamp;
}

uint64_t page_missed(const unsigned char *page, size_t bytes)
{
	struct page_head head;
	unsigned long stored;
	uint64_t count = 0;
	size_t end;

	if (bytes < sizeof(head))
		return 0;
	memcpy(&head, page, sizeof(head));
	if (!(head.used & MISSED_EVENTS))
		return 0;
	end = sizeof(head) + (head.used & ~(MISSED_EVENTS | MISSED_STORED));
	if ((head.used & MISSED_STORED) && end + sizeof(stored) <= bytes) {
		memcpy(&stored, page + end, sizeof(stored));
		count = stored;
	}
	return count ? count : 1;
}

void page_events(int cpu, const unsigned char *page, size_t bytes, event_fn event)
{
	struct page_head head;
	size_t at = sizeof(head), end;
	uint64_t t_ns;

	if (bytes < sizeof(head))
		return;
	memcpy(&head, page, sizeof(head));
	t_ns = head.t_ns;
	end = at + (head.used & ~(MISSED_EVENTS | MISSED_STORED));
	if (end > bytes)
		end = bytes;
	while (at + 4 <= end) {
		struct event_head one = { 0 };
		size_t body = at + 4, length;

		memcpy(&one, page + at, end - at < sizeof(one) ? 4 : sizeof(one));
		switch (one.type) {
		case PADDING:
			if (!one.delta)
				return; /* to the end of the page */
			at += 4 + one.more;
			continue;
		case TIME_EXTEND:
			t_ns += ((uint64_t)one.more << TIME_SHIFT) + one.delta;
			at += 8;
			continue;
		case TIME_STAMP:
			t_ns = absolute(((uint64_t)one.more << TIME_SHIFT) + one.delta, t_ns);
			at += 8;
			continue;
		case LONG_EVENT:
			body = at + 8;
			length = one.more < 4 ? 0 : one.more - 4;
			break;
		default:
			length = one.type * 4UL;
		}
		if (body + length > end)
			break;
		t_ns += one.delta;
		event(cpu, t_ns, page + body, length);
		at = body + length;
	}
}
