// SPDX-License-Identifier: BSD-2-Clause
/* The steps of a workload with one step at a time: each is a phase, with a progress line and a result line. */
#ifndef GENERATORS_STEPS_H
#define GENERATORS_STEPS_H

#include <stdint.h>

void step_begin(const char *name);
/* Begins a step that is not part of the results: its own CPU time does not count. */
void step_begin_unmeasured(const char *name);

/* Prints a line every few seconds. DONE: operations of the step so far. */
void step_progress(uint64_t done);
/* The same for a caller that counts many operations per call: reads the clock in each call. */
void step_progress_of_many(uint64_t done);

/* Ends the step: prints its line and writes its phase. OPS operations on BYTES bytes of file data. Returns seconds. */
double step_end(uint64_t ops, uint64_t bytes);

/* Remounts before a step that needs cold caches (remount.h). If that is not possible, the reason is printed once. */
void steps_make_cold(void);

/*
 * Writes the results of all steps: whether the caches were cold each time, and the own CPU time (own_cpu.h).
 */
void steps_finish(void);

#endif
