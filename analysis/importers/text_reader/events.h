/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of a block trace in text, parsed line by line, and their form in the binary stream of blktrace. */
#ifndef SEEKMETER_TEXT_EVENTS_H
#define SEEKMETER_TEXT_EVENTS_H

#include <linux/blktrace_api.h>
#include <stdint.h>
#include <stdio.h>

#include "scan.h"

#define COMM_BYTES   16
#define MAX_DISKS    256
#define DISK_BYTES   32
#define MAX_COLUMNS  16
#define KNOWN_PIDS   (1U << 14)
/* Above an event's action: what kind of request it is of. */
#define CATEGORY(of) ((uint32_t)BLK_TC_##of << BLK_TC_SHIFT)

enum format {
	FORMAT_PERF,
	FORMAT_FTRACE,
	FORMAT_BLK, /* the kernel's blk tracer, in text */
	FORMAT_BLKPARSE,
	FORMAT_BIOSNOOP,
	FORMAT_COUNT,
};

/* What stands in front of an event. */
struct head {
	uint64_t t_ns;
	uint32_t pid, cpu;
};

/* An event of struct blk_io_trace, with the thread's name where the text has it. */
struct said {
	uint64_t sector;
	bool no_place; /* the text says that there is no sector */
	uint32_t bytes;
	uint32_t
		action; /* BLK_TA_…, without what rwbs adds; CATEGORY(PC) for a driver's own command */
	uint32_t device; /* major << 20 | minor */
	bool of_thread;	 /* the text has no device: take the thread's last one */
	int32_t error;
	uint64_t pdu[2]; /* big-endian, as in the file */
	uint16_t pdu_len;
	char comm[COMM_BYTES]; /* "": not in the text */
};

/* The thread's last name and device. */
struct known_pid {
	uint32_t pid, device;
	char comm[COMM_BYTES];
};

struct counts {
	uint64_t bytes, lines, events;
	uint64_t of_format[FORMAT_COUNT];
	uint64_t other_events; /* well formed, but no request's: another subsystem's, buffers */
	uint64_t unreadable;   /* of a known kind, but not as the kernel writes it */
	uint64_t untimed;      /* events whose time is no time in seconds */
	uint64_t no_device;    /* plugs of a thread that had no device yet */
	uint64_t strange;      /* lines that are no events */
	uint64_t cut;	       /* last line without its end */
	uint64_t lost;	       /* events, by the tracer's marks */
};

struct biosnoop {
	enum column {
		COLUMN_OTHER,
		COLUMN_PID,
		COLUMN_DISK,
		COLUMN_RWBS,
		COLUMN_SECTOR,
		COLUMN_BYTES,
		COLUMN_PATTERN,
		COLUMN_QUEUED,
		COLUMN_LATENCY,
	} columns[MAX_COLUMNS];
	unsigned int count; /* of columns behind COMM; 0: no header yet */
	char disks[MAX_DISKS][DISK_BYTES];
	unsigned int disk_count;
	unsigned int latency_digits;
};

struct reader {
	FILE *out;
	unsigned int time_digits; /* most that a time had behind the point */
	struct counts counts;
	struct biosnoop biosnoop;
	struct known_pid *known; /* KNOWN_PIDS of them */
};

int reader_init(struct reader *reader, FILE *out);
void reader_free(struct reader *reader);

/* emit.c: one event. rwbs: as the kernel abbreviates what a request is. */
void emit(struct reader *reader, const struct head *head, const struct said *said,
	  struct text rwbs);
void emit_lost(struct reader *reader, uint32_t cpu, uint64_t count);

/* line.c: any line, without its end. */
void read_line(struct reader *reader, struct text line);

/* tracepoint.c: what is behind an event's name. False: it is not as the kernel writes it. */
bool read_tracepoint(struct reader *reader, const struct head *head, struct text name,
		     struct text text);

/* classic.c: what follows the device in text of the blk tracer and of blkparse: action, rwbs, the rest. */
bool read_classic(struct reader *reader, const struct head *head, uint32_t device,
		  struct text text);

/* biosnoop.c: true if the line is a header of biosnoop's; a row is false if it can't be read. */
bool biosnoop_header(struct biosnoop *biosnoop, struct text line);
bool biosnoop_row(struct reader *reader, struct text line);

/* payload.c: parts of events that several formats share. */
bool scan_device(struct text *text, uint32_t *device);
/* "sector + sectors" */
bool scan_place(struct text *text, struct said *said);
/* "[comm]", the last thing of a line */
bool scan_comm(struct text *text, char *comm);
/* "[error]" */
bool scan_error(struct text *text, struct said *said);
/* "sector / sector [comm]", as a split's */
bool scan_split(struct text *text, struct said *said);
/* "sector + sectors <- (major,minor) sector", as a remap's */
bool scan_remap(struct text *text, struct said *said);

#endif
