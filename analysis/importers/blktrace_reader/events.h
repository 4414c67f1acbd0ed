/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of block traces, and the files they come from: one stream a file, all merged in order of time. */
#ifndef SEEKMETER_BLKTRACE_EVENTS_H
#define SEEKMETER_BLKTRACE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PDU_KEPT      16
/* Beyond it a report's arithmetic would overflow, and no disk is. */
#define MAX_SECTOR    (1ULL << 53)
/* Times below this count from the start of a dump: no machine is traced in its first second. */
#define RELATIVE_TIME 1000000000ULL

/* As struct blk_io_trace of linux/blktrace_api.h, in this machine's byte order, and the start of what follows it. */
struct event {
	uint32_t magic;
	uint32_t sequence; /* of its device and CPU; 0: none */
	uint64_t time;	   /* ns */
	uint64_t sector;   /* of a note: its own time */
	uint32_t bytes;
	uint32_t action; /* what happened, and above it the categories */
	uint32_t pid;
	uint32_t device; /* major << 20 | minor */
	uint32_t cpu;
	uint16_t error;
	uint16_t pdu_len;	     /* as in the file */
	unsigned char pdu[PDU_KEPT]; /* behind the cgroup id, zeros where there is less */
};

_Static_assert(sizeof(struct event) == 48 + PDU_KEPT, "the first 48 bytes are read as they stand");

/* Defects of a file, and losses that the kernel marked in it. */
struct stream_counts {
	uint64_t bytes, events;
	uint64_t cut_bytes, cut_events; /* an event the file's end cuts */
	uint64_t unreadable_bytes;	/* between events */
	uint64_t lost_marked;		/* events lost, by the kernel's marks in the stream */
	uint64_t impossible;		/* events with a time or a place that can't be */
};

struct stream {
	const char *path;
	int fd;
	bool swapped;	 /* of the other byte order */
	bool end;	 /* nothing more to read */
	int error;	 /* errno of a read that failed */
	int index;	 /* of the file on the command line */
	bool one_device; /* all events so far are of `device` */
	uint32_t device;
	bool taken; /* the caller has its next event */
	unsigned char *buffer;
	size_t begin, filled; /* the part of the buffer that is not parsed yet */
	struct event *events; /* in order of time from `next` on */
	size_t window;	      /* room for so many */
	size_t next, ready,
		count;	     /* ready: those before it can't be preceded by one still to be read */
	struct event *spare; /* to sort into, made when first needed */
	bool has_event;	     /* that is no note */
	uint64_t first_time, last_time; /* of events that are no notes */
	struct stream_counts counts;
};

enum open_result { OPEN_OK, OPEN_EMPTY, OPEN_FOREIGN, OPEN_ERROR };

/* OPEN_ERROR: errno. OPEN_FOREIGN: `why` says what it is instead. */
enum open_result stream_open(struct stream *stream, const char *path, const char **why);
/* Memory for a window of so many events. Returns -1 without memory. */
int stream_prepare(struct stream *stream, size_t window);
/* The next event in order of time; NULL at the end, and with errno set if the file can't be read. */
const struct event *stream_peek_slow(struct stream *stream);
void stream_close(struct stream *stream);

static inline const struct event *stream_peek(struct stream *stream)
{
	return stream->next < stream->ready ? &stream->events[stream->next]
					    : stream_peek_slow(stream);
}

/* All streams merged by time; events of the same time in the order of the files. */
struct merge {
	struct stream **heap; /* the one whose next event is the earliest first */
	size_t count;
};

int merge_start(struct merge *merge, struct stream *streams, size_t count);
/* NULL at the end of all, and with errno set if one can't be read. The event is valid until the next call. */
struct event *merge_next(struct merge *merge);

#endif
