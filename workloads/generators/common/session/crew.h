// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that do one phase after another: all begin it together, and it is over when the last of them is done.
 * An error ends the program.
 */
#ifndef GENERATORS_CREW_H
#define GENERATORS_CREW_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define CREW_MAX 1024

struct crew;

/* What one thread does in a phase; OWN is its own part of the caller's array. It calls crew_did() as it goes. */
typedef void crew_work(void *own, int phase, _Atomic uint64_t *done);

/* From the first thread's start to the last one's end. */
struct crew_span {
	int64_t start_ns;
	int64_t end_ns;
	uint64_t done; /* operations */
};

/* OWN: an array of THREADS members of OWN_BYTES each. */
struct crew *crew_start(unsigned long threads, crew_work *work, void *own, size_t own_bytes);

/* All do PHASE; meanwhile a line with NAME every few seconds. */
struct crew_span crew_phase(struct crew *crew, int phase, const char *name);

void crew_end(struct crew *crew);

static inline void crew_did(_Atomic uint64_t *done, uint64_t operations)
{
	atomic_fetch_add_explicit(done, operations, memory_order_relaxed);
}

#endif
