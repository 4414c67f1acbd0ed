// SPDX-License-Identifier: BSD-2-Clause
/*
 * The parts of blk-tracer, which writes the kernel's blk tracer as files of blktrace (main.c). Times are
 * CLOCK_MONOTONIC in ns.
 */
#ifndef SEEKMETER_BLKTRACE_H
#define SEEKMETER_BLKTRACE_H

#include <linux/blktrace_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_DISKS  64
#define COMM_BYTES 16

/* pages.c: one event out of the ring buffer. data begins with the tracer's own header (trace_entry). */
typedef void (*event_fn)(int cpu, uint64_t t_ns, const void *data, size_t bytes);

/* Calls `event` for each event of a sub-buffer, as read from trace_pipe_raw. */
void page_events(int cpu, const unsigned char *page, size_t bytes, event_fn event);
/* Events lost just before this sub-buffer; 1 if the kernel reports a loss without a number. */
uint64_t page_missed(const unsigned char *page, size_t bytes);

/*
 * kernel.c: the number of TRACE_BLK in trace_entry.type; -1, and *why, if the event's layout is not
 * linux/blktrace_api.h's.
 */
int kernel_blk_type(const char **why);

/* names.c: the name of a thread by its id, at an event of this time. */
struct name {
	uint32_t pid;
	bool used;
	bool known;
	uint64_t looked_ns;
	unsigned char *noted; /* a bit for each file that has the name */
	char comm[COMM_BYTES];
};

/* files: the number of files to note names in. Returns -1: no memory. */
int names_open(int cpus, int files);
/* NULL: no memory. known is false if the process was gone. */
struct name *name_of(uint32_t pid, int cpu, uint64_t t_ns);
uint64_t names_gone(void);

/* comms.c: names by perf, and by /proc. Returns -1: no memory. */
int comms_open(int cpus);
/* Reads perf's buffers. They overflow unless this is called often. */
void comms_read(void);
/* The last name under this id, of COMM_BYTES. */
bool comms_name(uint32_t tid, char *comm);
/* The name of a thread in /proc; comm: of COMM_BYTES + 1. */
bool comms_from_proc(uint32_t pid, char *comm);
/* True: the thread took a name in this time. */
bool comms_taken(uint32_t tid, uint64_t after_ns, uint64_t until_ns);

/* files.c: the files DISK.blktrace.CPU. */
int files_open(const char *folder, const char *disk, uint32_t dev, int cpus);
void files_event(int cpu, uint64_t t_ns, const struct blk_io_trace *event, size_t bytes);
void files_gap(int cpu, uint64_t lost);
void files_flush(void);
/* Writes a notify record of the wall clock, now, in the first file of each disk. */
void files_note_time(void);
int files_close(void);

/* count.c: prints the counts of events in files of blktrace. Returns an exit status. paths ends with NULL. */
int count_files(char **paths);

struct file_counts {
	uint64_t recorded;
	uint64_t notes;	    /* process names written in */
	uint64_t disk_full; /* events that could not be written */
	uint64_t failed;    /* the same, for another reason */
	uint64_t other_dev; /* events of other disks */
	uint64_t malformed; /* events shorter than their own length field */
};
extern struct file_counts file_counts;

#endif
