/* SPDX-License-Identifier: BSD-2-Clause */
/* block.rec as the recorder writes it: its own description, then one record a request. */
#ifndef SEEKMETER_BLKTRACE_OUTPUT_H
#define SEEKMETER_BLKTRACE_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "records.h"

struct output {
	int fd;
	int error; /* errno of the first write that failed */
	size_t count;
	uint64_t rows;
	struct block_record *records;
};

/* Makes block.rec in this directory. Returns -1 and errno. */
int output_open(struct output *output, int directory);
/* Writes what is left. Returns -1 and errno if anything could not be written. */
int output_close(struct output *output);
void output_flush(struct output *output);

#define OUTPUT_RECORDS 8192

/* The next record, zeros, to be filled in. */
struct block_record *output_next(struct output *output);

#endif
