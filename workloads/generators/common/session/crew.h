// SPDX-License-Identifier: BSD-2-Clause
/*
 * A crew of threads that works in phases. All threads begin a phase together; the phase ends when the last thread is
 * done. An error ends the program.
 */
#ifndef GENERATORS_CREW_H
#define GENERATORS_CREW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CREW_MAX 1024

struct crew;

/* The work of one thread in a phase. OWN: the thread's element of the caller's array. Calls crew_did() for progress. */
typedef void crew_work(void *own, int phase, _Atomic uint64_t *done);

/* Time of a phase: from the first thread's start to the last thread's end. */
struct crew_span {
	int64_t start_ns;
	int64_t end_ns;
	uint64_t done; /* operations */
};

/* Starts THREADS threads. OWN: an array of THREADS elements of OWN_BYTES each. */
struct crew *crew_start(unsigned long threads, crew_work *work, void *own, size_t own_bytes);

/* Runs PHASE on all threads, and prints a progress line with NAME every few seconds. */
struct crew_span crew_phase(struct crew *crew, int phase, const char *name);

void crew_end(struct crew *crew);

static inline void crew_did(_Atomic uint64_t *done, uint64_t operations)
{
	atomic_fetch_add_explicit(done, operations, memory_order_relaxed);
}

#endif
