// SPDX-License-Identifier: BSD-2-Clause
/* Runs postmark(1), PostMark 1.5, with its parts as phases of ours, and checks what it says that it did. */
#ifndef GENERATORS_POSTMARK_H
#define GENERATORS_POSTMARK_H

#include <stdint.h>

struct postmark {
	const char *
		dir; /* is made, and removed when it is done; short and without spaces (see webcache.c) */
	unsigned long files;
	unsigned long transactions;
	unsigned long subdirectories; /* at least one */
	unsigned long bytes_min;
	unsigned long bytes_max;
	uint64_t seed;
};

/* Returns its transactions/s by our clock: its own counts whole seconds. An error ends the program. */
double postmark_run(const struct postmark *wanted);

#endif
