// SPDX-License-Identifier: BSD-2-Clause
/* What the parts of pgmeter share: its settings, a row of the table of tests, what a test came to. */
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
	 * The samples are in the file -J's pgmeter-NAME_iops.log, as fio writes it: milliseconds since the
	 * measured part began, and requests a second in the sample that ended then. So many lines add up to one.
	 */
	uint64_t log_lines;
};

/* Makes the files. */
void fio_lay_out(const struct settings *set);

/* The test that ROWS, N of them, describe: fio's job NAME, at random places. */
struct result fio_measure(const struct settings *set, const char *name, const struct mix *rows,
			  int n, uint64_t outstanding);

/* Reads or writes requests of TEST's size one after the other from the files' beginnings on, and again. */
struct result sequential_measure(const struct settings *set, const char *name,
				 const struct mix *test, uint64_t outstanding);

static inline void log_path(const struct settings *set, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/pgmeter-%s_iops.log", set->jobs, name);
}

#endif
