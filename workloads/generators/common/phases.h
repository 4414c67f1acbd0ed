// SPDX-License-Identifier: BSD-2-Clause
/*
 * Tells the session when each phase of the workload ran: one JSON object a line, appended with one
 * write(2) to the file that $SEEKMETER_PHASES names. Without that variable nothing is written.
 */
#ifndef GENERATORS_PHASES_H
#define GENERATORS_PHASES_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds, the clock of all of Seekmeter's tables. */
int64_t now_ns(void);

/* Open the file; a name that cannot be opened ends the program. Call once, before the first phase. */
void phases_open(void);

/* NAME: without quotes and backslashes. OPS: operations done in the phase. BYTES: of file data. */
void phase_done(const char *name, int64_t start_ns, int64_t end_ns, uint64_t ops, uint64_t bytes);

#endif
