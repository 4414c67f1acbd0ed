// SPDX-License-Identifier: BSD-2-Clause
/*
 * One file of a block trace, event by event, in order of time.
 *
 * A file of one CPU is in that order; a stream that came through a pipe (blktrace -o -) is in pieces of the CPUs'
 * buffers. So a window of events is kept and sorted where it is not in order, and only its first half is given out.
 * The file is not trusted: bytes that are no event are skipped up to the next event, and counted.
 */
#include "events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actions.h"

#define HEADER_BYTES 48
#define BUFFER_BYTES (256 << 10) /* more than the longest event, 48 + 65535 */
#define MARK_BYTES   64		 /* no mark of the kernel's is longer */
/* As MAX_SECTOR: no uptime is. */
#define MAX_TIME     (1ULL << 61)

static uint32_t load32(const void *at, bool swapped)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return swapped ? __builtin_bswap32(value) : value;
}

/* Fills the buffer. False at the end of the file or on an error. */
static bool refill(struct stream *stream)
{
	size_t left = stream->filled - stream->begin;
	ssize_t got;

	memmove(stream->buffer, stream->buffer + stream->begin, left);
	stream->begin = 0;
	stream->filled = left;
	do
		got = read(stream->fd, stream->buffer + left, BUFFER_BYTES - left);
	while (got < 0 && errno == EINTR);
	if (got <= 0) {
		stream->end = true;
		stream->error = got < 0 ? errno : 0;
		return false;
	}
	stream->filled += got;
	stream->counts.bytes += got;
	return true;
}

/* Makes this many bytes available if the file has them. */
static inline bool have(struct stream *stream, size_t bytes)
{
	while (__builtin_expect(stream->filled - stream->begin < bytes, 0))
		if (stream->end || !refill(stream))
			return false;
	return true;
}

/*
 * A tracer whose buffer was full says so in text, also between binary events (print_trace_line() in the kernel).
 * Returns the length of the mark at `text`, 0 if there is none.
 */
static size_t lost_mark(const unsigned char *text, size_t length, uint64_t *lost)
{
	char copy[MARK_BYTES + 1];
	unsigned long long count = 0;
	unsigned int cpu;
	int read = 0;

	length = length < MARK_BYTES ? length : MARK_BYTES;
	memcpy(copy, text, length);
	copy[length] = '\0';
	if (strncmp(copy, "CPU:", 4))
		return 0;
	if (sscanf(copy, "CPU:%9u [LOST EVENTS]%n", &cpu, &read) == 1 && read)
		count = 1; /* the mark has no number */
	else if (sscanf(copy, "CPU:%9u [LOST %18llu EVENTS]%n", &cpu, &count, &read) != 2 || !read)
		return 0;
	if (copy[read] != '\n')
		return 0;
	*lost += count;
	return read + 1;
}

/* Skips bytes that are no event. False at the end of the file. */
static bool skip_garbage(struct stream *stream)
{
	bool whole = have(stream, BUFFER_BYTES / 2);
	unsigned char *at = stream->buffer + stream->begin;
	size_t left = stream->filled - stream->begin, skip = 1;
	size_t mark = lost_mark(at, left, &stream->counts.lost_marked);

	if (mark) {
		stream->begin += mark;
		return have(stream, 1);
	}
	for (; skip < left; skip++) {
		if (left - skip < MARK_BYTES && whole)
			break; /* it may go on behind the buffer */
		if (at[skip] == 'C' && left - skip >= 4 && !memcmp(at + skip, "CPU:", 4))
			break;
		if (left - skip >= 4 &&
		    load32(at + skip, stream->swapped) == (TRACE_MAGIC | TRACE_VERSION))
			break;
	}
	stream->counts.unreadable_bytes += skip;
	stream->begin += skip;
	return have(stream, 1);
}

static void swap_header(struct event *event)
{
	event->sequence = __builtin_bswap32(event->sequence);
	event->time = __builtin_bswap64(event->time);
	event->sector = __builtin_bswap64(event->sector);
	event->bytes = __builtin_bswap32(event->bytes);
	event->action = __builtin_bswap32(event->action);
	event->pid = __builtin_bswap32(event->pid);
	event->device = __builtin_bswap32(event->device);
	event->cpu = __builtin_bswap32(event->cpu);
	event->error = __builtin_bswap16(event->error);
	event->pdu_len = __builtin_bswap16(event->pdu_len);
}

/* A timestamp's seconds and nanoseconds are the machine's own words; all else behind an event is big-endian or text. */
static void swap_words(unsigned char *pdu)
{
	uint32_t words[2];

	memcpy(words, pdu, sizeof(words));
	words[0] = __builtin_bswap32(words[0]);
	words[1] = __builtin_bswap32(words[1]);
	memcpy(pdu, words, sizeof(words));
}

/*
 * blkparse's dump counts the time of events from its first one, and leaves notes their own time: there they are
 * told by their place in the file. Those before all events come first: they name who was there already.
 */
static void place_note(const struct stream *stream, struct event *note)
{
	note->sector = note->time;
	if (!stream->has_event)
		note->time = 0;
	else if (stream->first_time < RELATIVE_TIME)
		note->time = stream->last_time;
}

/* True: the rest of the file is the beginning of an event, however short. */
static bool begins_event(const struct stream *stream)
{
	uint32_t magic = TRACE_MAGIC | TRACE_VERSION;
	size_t left = stream->filled - stream->begin;

	if (stream->swapped)
		magic = __builtin_bswap32(magic);
	return !memcmp(stream->buffer + stream->begin, &magic,
		       left < sizeof(magic) ? left : sizeof(magic));
}

/* Takes the next event out of the buffer. False at the end of the file. */
static bool read_event(struct stream *stream, struct event *event)
{
	for (;;) {
		const unsigned char *at;
		size_t skip, length;

		if (!have(stream, HEADER_BYTES))
			break;
		at = stream->buffer + stream->begin;
		if (load32(at, stream->swapped) != (TRACE_MAGIC | TRACE_VERSION)) {
			if (!skip_garbage(stream))
				return false;
			continue;
		}
		memcpy(event, at, HEADER_BYTES);
		if (stream->swapped)
			swap_header(event);
		if (!have(stream, HEADER_BYTES + event->pdu_len))
			break;
		at = stream->buffer + stream->begin + HEADER_BYTES;
		stream->begin += HEADER_BYTES + event->pdu_len;
		memset(event->pdu, 0, PDU_KEPT);
		skip = event->action & ACTION_CGROUP ? CGROUP_ID_BYTES : 0;
		if (event->pdu_len > skip) {
			length = event->pdu_len - skip;
			memcpy(event->pdu, at + skip, length < PDU_KEPT ? length : PDU_KEPT);
		}
		if (stream->swapped && is_timestamp(event->action))
			swap_words(event->pdu);
		if (!stream->counts.events++) {
			stream->device = event->device;
			stream->one_device = true;
		} else if (event->device != stream->device) {
			stream->one_device = false;
		}
		if (event->sector == UINT64_MAX)
			event->sector = 0; /* a flush of kernels before 2.6.37 */
		if (is_notify(event->action))
			place_note(stream, event);
		if (__builtin_expect(event->sector >= MAX_SECTOR || event->time >= MAX_TIME, 0) &&
		    !is_notify(event->action)) {
			stream->counts.impossible++;
			continue;
		}
		if (!is_notify(event->action)) {
			if (!stream->has_event)
				stream->first_time = event->time;
			stream->has_event = true;
			stream->last_time = event->time;
		}
		return true;
	}
	if (stream->filled > stream->begin) {
		/* A mark is shorter than an event. */
		if (!begins_event(stream)) {
			while (stream->begin < stream->filled && skip_garbage(stream))
				;
			if (stream->filled == stream->begin)
				return false;
		}
		stream->counts.cut_events++;
		stream->counts.cut_bytes += stream->filled - stream->begin;
		stream->begin = stream->filled;
	}
	return false;
}

/* Sorts by time and keeps the order of equals: merges what is in order already, as sorted pieces follow each other. */
static int sort_events(struct stream *stream, struct event *events, size_t count)
{
	struct event *from = events, *to;

	if (!stream->spare) {
		stream->spare = malloc(stream->window * sizeof(*events));
		if (!stream->spare)
			return -1;
	}
	to = stream->spare;
	for (;;) {
		size_t out = 0, runs = 0, at = 0;

		while (at < count) {
			size_t middle = at + 1, end, left = at, right;

			while (middle < count && from[middle - 1].time <= from[middle].time)
				middle++;
			end = middle < count ? middle + 1 : middle;
			while (end < count && from[end - 1].time <= from[end].time)
				end++;
			right = middle;
			while (left < middle && right < end)
				to[out++] = from[right].time < from[left].time ? from[right++]
									       : from[left++];
			while (left < middle)
				to[out++] = from[left++];
			while (right < end)
				to[out++] = from[right++];
			at = end;
			runs++;
		}
		if (runs <= 1)
			break;
		struct event *swap = from;

		from = to;
		to = swap;
	}
	if (to != events)
		memcpy(events, to, count * sizeof(*events));
	return 0;
}

const struct event *stream_peek_slow(struct stream *stream)
{
	size_t kept = stream->count - stream->next;
	bool in_order = true, whole = false;

	errno = 0;
	memmove(stream->events, stream->events + stream->next, kept * sizeof(*stream->events));
	stream->count = kept;
	stream->next = 0;
	while (stream->count < stream->window) {
		struct event *event = &stream->events[stream->count];

		if (!read_event(stream, event)) {
			errno = stream->error;
			if (errno)
				return NULL;
			whole = true;
			break;
		}
		if (stream->count && event->time < event[-1].time)
			in_order = false;
		stream->count++;
	}
	if (!in_order && sort_events(stream, stream->events, stream->count)) {
		errno = ENOMEM;
		return NULL;
	}
	stream->ready = whole ? stream->count : (stream->window + 1) / 2;
	return stream->count ? stream->events : NULL;
}

enum open_result stream_open(struct stream *stream, const char *path, const char **why)
{
	unsigned char first[4];
	struct stat status;
	ssize_t got;

	memset(stream, 0, sizeof(*stream));
	stream->path = path;
	stream->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (stream->fd < 0)
		return OPEN_ERROR;
	if (fstat(stream->fd, &status))
		return OPEN_ERROR;
	*why = "it is no regular file";
	if (!S_ISREG(status.st_mode))
		return OPEN_FOREIGN;
	*why = "it is another user's, and root reads no trace of others; chown it to root";
	if (!geteuid() && status.st_uid)
		return OPEN_FOREIGN;
	got = pread(stream->fd, first, sizeof(first), 0);
	if (got < 0)
		return OPEN_ERROR;
	if (got == 0)
		return OPEN_EMPTY;
	*why = "it does not begin as a block trace does";
	if (got < (ssize_t)sizeof(first))
		return OPEN_FOREIGN;
	if (!memcmp(first, "CPU:", 4)) /* marks of loss come first; the other byte order has none */
		return OPEN_OK;
	stream->swapped = (load32(first, true) & ~0xffU) == TRACE_MAGIC;
	if ((load32(first, stream->swapped) & ~0xffU) != TRACE_MAGIC)
		return OPEN_FOREIGN;
	*why = "its format is of another version than 7";
	return (load32(first, stream->swapped) & 0xff) == TRACE_VERSION ? OPEN_OK : OPEN_FOREIGN;
}

int stream_prepare(struct stream *stream, size_t window)
{
	stream->window = window;
	stream->buffer = malloc(BUFFER_BYTES + MARK_BYTES); /* the end is looked at in fours */
	stream->events = malloc(window * sizeof(*stream->events));
	return stream->buffer && stream->events ? 0 : -1;
}

void stream_close(struct stream *stream)
{
	if (stream->fd >= 0)
		close(stream->fd);
	free(stream->buffer);
	free(stream->events);
	free(stream->spare);
	stream->buffer = NULL;
	stream->events = stream->spare = NULL;
	stream->fd = -1;
}
