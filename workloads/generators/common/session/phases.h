// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tells the session when each phase of the workload ran: one JSON object a line, appended with one
 * write(2) to the file that $SEEKMETER_PHASES names. Without that variable nothing is written. What begins is told
 * in the same way to $SEEKMETER_PHASES_BEGUN: for who looks at the progress, no result.
 *
 * What is recorded in time bins can be told by phase if no bin reaches over a phase's border. So the session's
 * recorder is asked for a cut of the bins at each ($SEEKMETER_BORDERS names its socket; without it, or if it can't
 * cut there, such figures are shared out). A phase's line then has the cuts around it, "from_ns" and "until_ns":
 * between a cut and the phase the workload does nothing. One thread at a time calls these.
 */
#ifndef GENERATORS_PHASES_H
#define GENERATORS_PHASES_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds, the clock of all of Seekmeter's tables. */
int64_t now_ns(void);

/* Open the files; a name that cannot be opened ends the program. Call once, before the first phase. */
void phases_open(void);

/* Before a phase begins: cut here. Returns the time after it. */
int64_t phase_begin(void);

/*
 * For a border that lies inside of what goes on: cut as soon as may be (at_ns 0), or at that moment, a millisecond ahead
 * at least, in order of time. Returns when: the border is there.
 */
int64_t phase_cut(int64_t at_ns);

/* A cut that another process of the program made. */
void phase_was_cut(int64_t cut_ns);

/*
 * A phase begins; START_NS may be later than now. Its phase_done() comes when it is over, or later; one that is not
 * told to begin is shown to nobody until then.
 */
void phase_announce(const char *name, int64_t start_ns);

/* Call it as soon as the phase is over. NAME: without quotes and backslashes. OPS: operations done in the phase. BYTES: of file data. */
void phase_done(const char *name, int64_t start_ns, int64_t end_ns, uint64_t ops, uint64_t bytes);

/* The same of a phase that alone moved data between the cuts around it, however far away from it they are. */
void phase_done_alone(const char *name, int64_t start_ns, int64_t end_ns, uint64_t ops,
		      uint64_t bytes);

#endif
