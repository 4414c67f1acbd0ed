// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs postmark(1), PostMark 1.5, and marks its parts as phases. Checks the counts that PostMark reports, against each
 * other and against its commands, and its sums of bytes against the kernel's.
 */
#ifndef GENERATORS_POSTMARK_H
#define GENERATORS_POSTMARK_H

#include <stdint.h>

/*
 * PostMark's directory, made in the working directory and removed at the end. The path is relative and short: PostMark
 * 1.51 writes past its buffer if a path is longer than about eighty bytes.
 */
#define POSTMARK_TOP "postmark"

struct postmark {
	uint64_t files;
	uint64_t transactions;
	uint64_t subdirectories;
	uint64_t bytes_min, bytes_max; /* file sizes */
	uint64_t io_bytes;	       /* size of a read or write */
	uint64_t read_tenths;	       /* share of the transactions that read; the others append */
	uint64_t create_tenths; /* share of the transactions that create; the others delete */
	uint64_t seed;
};

/*
 * Runs PostMark. Results: operations of each part, the bytes that the kernel counted, and transactions/s by
 * CLOCK_MONOTONIC (PostMark's clock counts whole seconds). An error ends the program.
 */
void postmark_run(const struct postmark *wanted);

#endif
