// SPDX-License-Identifier: BSD-2-Clause
/*
 * The start and end of each phase of the workload, for the session: one JSON object per line, appended with one
 * write(2) to the file that $SEEKMETER_PHASES names. Without that variable nothing is written. The file of
 * $SEEKMETER_PHASES_BEGUN gets a line when a phase begins: it is for the progress display alone.
 *
 * Events recorded in time bins belong to one phase if no bin reaches over a phase's border. So each border asks the
 * recorder for a cut of its bins ($SEEKMETER_BORDERS names the recorder's socket). Without that socket, or if the
 * recorder can't cut, the analysis divides a bin's sums among its phases. A phase's line has the cuts around it, "from_ns"
 * and "until_ns": between a cut and the phase the workload does nothing. One thread at a time calls these functions.
 */
#ifndef GENERATORS_PHASES_H
#define GENERATORS_PHASES_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds, the clock of all of Seekmeter's tables. */
int64_t now_ns(void);

/* Opens the files, once, before the first phase. A file that cannot be opened ends the program. */
void phases_open(void);

/* Cuts the bins before a phase begins. Returns the time after the cut. */
int64_t phase_begin(void);

/*
 * Cuts the bins at a border while the workload goes on: as soon as possible (at_ns 0), or at that time, which must be a
 * millisecond ahead at least and later than the cut before. Returns the border's time.
 */
int64_t phase_cut(int64_t at_ns);

/* Notes a cut that another process of the program made. */
void phase_was_cut(int64_t cut_ns);

/*
 * Announces a phase to the progress display; start_ns may be later than now. phase_done() follows when the phase is over.
 */
void phase_announce(const char *name, int64_t start_ns);

/* Writes a phase's line, as soon as it is over. name: without quotes and backslashes; bytes: of file data. */
void phase_done(const char *name, int64_t start_ns, int64_t end_ns, uint64_t ops, uint64_t bytes);

/* The same for a phase that alone moved data between the cuts around it, however far away these cuts are. */
void phase_done_alone(const char *name, int64_t start_ns, int64_t end_ns, uint64_t ops,
		      uint64_t bytes);

#endif
