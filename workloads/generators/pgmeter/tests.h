// SPDX-License-Identifier: BSD-2-Clause
/* Types shared by pgmeter's files: settings, a row of the table of tests, the result of a test. */
#ifndef GENERATORS_PGMETER_TESTS_H
#define GENERATORS_PGMETER_TESTS_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#define TOP	   "pgmeter" /* the directory that is made; in it file-0, file-1, … */
#define NAME_BYTES 32
#define SECOND_NS  INT64_C(1000000000)

struct settings {
	const char *dir, *mixes, *jobs, *tests, *outstanding;
	uint64_t files, mib, warmup_s, measured_s, sample_s, seed;
};

/* Requests of one size in one test. */
struct mix {
	char test[NAME_BYTES];
	unsigned int bytes, pct, read_pct, random_pct;
};

struct result {
	int64_t start_ns, end_ns; /* of the measured part */
	uint64_t requests, bytes;
	/*
	 * The samples are in the file pgmeter-NAME_iops.log in -J's directory, in fio's format. A line has the
	 * milliseconds since the start of the measured part, and the requests/s of the sample that ended then.
	 * log_lines: lines that add up to one sample.
	 */
	uint64_t log_lines;
};

/* Makes the files. */
void fio_lay_out(const struct settings *set);

/* Measures the test of N rows with the fio job NAME, at random offsets. */
struct result fio_measure(const struct settings *set, const char *name, const struct mix *rows,
			  int n, uint64_t outstanding);

/* Reads or writes the files sequentially in requests of TEST's size, again from the beginning after the end. */
struct result sequential_measure(const struct settings *set, const char *name,
				 const struct mix *test, uint64_t outstanding);

static inline void log_path(const struct settings *set, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/pgmeter-%s_iops.log", set->jobs, name);
}

#endif
