/* SPDX-License-Identifier: BSD-2-Clause */
/* losses.json: what each collector saw, recorded and lost, and what it cost. */
#ifndef SEEKMETER_LOSSES_H
#define SEEKMETER_LOSSES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct options;

struct recorder_times {
	/* All events until then are in the tables, except for time bins that are not over. */
	uint64_t until_ns;
	uint64_t start_cpu_ns; /* CPU time of this process until it began to record */
};

/* Replaces losses.json by renaming a new file, so that no reader sees a partial file. */
void losses_write(const struct options *options, const struct recorder_times *times, bool complete);

/* Writes only what each collector saw, recorded and lost so far. */
void losses_write_counts(FILE *out);

#endif
