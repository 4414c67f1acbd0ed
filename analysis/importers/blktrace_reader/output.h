/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the tables in the recorder's format (.rec): a header that describes the record, then one record per row. */
#ifndef SEEKMETER_BLKTRACE_OUTPUT_H
#define SEEKMETER_BLKTRACE_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "common/records.h"

/* block.rec: a request as the recorder has it, and what only a block trace tells. */
struct trace_record {
	struct block_record request;
	uint64_t get_request_ns; /* it was allocated (G); 0: not known */
	uint64_t
		q2m_ns; /* sum over the bios merged into it, from queueing to merge; 0: none, or not known */
	uint64_t m2d_ns; /* the same from merge to issue */
};

/* plug.rec: requests that a thread held back (plugged) are handed over. */
struct plug_record {
	uint64_t plug_ns; /* the first was held back (P); 0: not known */
	uint64_t unplug_ns;
	uint32_t dev;
	uint32_t pid;
	uint32_t depth; /* requests */
	uint16_t cpu;
	uint8_t by_schedule; /* the thread went to sleep, or (before Linux 2.6.39) a timer ran out */
	uint8_t pad;
	char comm[16];
};

/* One table. */
struct output_table {
	int fd;
	size_t record_bytes, count;
	unsigned char *records;
};

struct output {
	int error; /* errno of the first write that failed */
	uint64_t rows, plugs, bios;
	int directory;
	struct output_table block, plug;
	struct output_table volume; /* its file is made for the first row */
};

/* Makes the tables in this directory. Returns -1 and errno. */
int output_open(struct output *output, int directory);
/* Writes what is left. Returns -1 and errno if anything could not be written. */
int output_close(struct output *output);

/* The next record, zeros and no call, to be filled in. */
struct trace_record *output_next(struct output *output);
struct plug_record *output_next_plug(struct output *output);
struct volume_record *output_next_bio(struct output *output);

/* Makes the rows of volumes requests, issued when they were queued. */
void output_bios_as_requests(struct output *output);

#endif
