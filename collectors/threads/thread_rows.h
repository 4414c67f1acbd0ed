/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of thread_time.rec: from the programs' sums, and from intervals that cross the borders of bins. */
#ifndef SEEKMETER_THREAD_ROWS_H
#define SEEKMETER_THREAD_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/records.h"

struct btf;
struct collector_state;
struct options;

/* Where the keys' numbers lead. */
struct thread_rows_names {
	int stacks_fd;			 /* hash map of struct thread_stack */
	const struct thread_work *works; /* THREAD_WORKS */
};

/* Creates the file; 0, or -1 with errno. */
int thread_rows_open(const struct options *options, const struct btf *btf,
		     struct thread_rows_names names, struct collector_state *state);
/* Adds the row of a sum. */
void thread_rows_add(uint64_t bin_ns, uint64_t length_ns, const struct thread_time_key *key,
		     const struct thread_time_sum *sum);
/* Adds the rows of an interval, bin by bin; these bins are over. */
void thread_rows_split(const struct thread_event *event);
/* Writes the rows that were added. */
void thread_rows_flush(void);
/*
 * From here until thread_rows_keep_end() rows go to a table of their own, in these options' directory, and do not count as
 * recorded: their intervals are under way. 0; -1: errno is set.
 */
int thread_rows_keep(const struct options *kept, const struct btf *btf);
void thread_rows_keep_end(void);
void thread_rows_close(void);

#endif
