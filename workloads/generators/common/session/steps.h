// SPDX-License-Identifier: BSD-2-Clause
/* The phases of a workload that does one thing after the other: their clock, their lines, cold caches between them. */
#ifndef GENERATORS_STEPS_H
#define GENERATORS_STEPS_H

#include <stdint.h>

void step_begin(const char *name);
/* The same for what is no part of the comparison: its CPU time does not count. */
void step_begin_unmeasured(const char *name);

/* A line every few seconds. DONE: of the step's operations so far. */
void step_progress(uint64_t done);
/* The same for one who asks after many operations only. */
void step_progress_of_many(uint64_t done);

/* The step is over: its line and its phase. OPS operations on BYTES bytes of file data. Returns its seconds. */
double step_end(uint64_t ops, uint64_t bytes);

/* Before a step that must find nothing in memory (remount.h). What is not done is said, once. */
void steps_make_cold(void);

/*
 * At the end: whether the caches were cold each time, and how much of the steps' time this program and those that it
 * started were on a CPU outside the kernel (own_cpu.h), which must not be what the figures show.
 */
void steps_finish(void);

#endif
