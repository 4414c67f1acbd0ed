// SPDX-License-Identifier: BSD-2-Clause
/*
 * Runs postmark(1), PostMark 1.5, with its parts as phases of ours, and checks what it says that it did: its counts
 * against each other and against what it was told to do, its bytes against those that the kernel counted.
 */
#ifndef GENERATORS_POSTMARK_H
#define GENERATORS_POSTMARK_H

#include <stdint.h>

/*
 * The directory that is made, and removed when it is done, in the working directory: PostMark 1.51 writes past its
 * buffer where a file's whole name is longer than some eighty bytes.
 */
#define POSTMARK_TOP "postmark"

struct postmark {
	uint64_t files;
	uint64_t transactions;
	uint64_t subdirectories;
	uint64_t bytes_min, bytes_max; /* of a file */
	uint64_t io_bytes;	       /* of one read or write */
	uint64_t read_tenths;	       /* of the transactions, instead of appends */
	uint64_t create_tenths;	       /* instead of deletes */
	uint64_t seed;
};

/*
 * Figures: what it did by part, the bytes that the kernel counted, and the transactions/s by our clock (its own counts
 * whole seconds). An error ends the program.
 */
void postmark_run(const struct postmark *wanted);

#endif
