// SPDX-License-Identifier: BSD-2-Clause
/* A crew of threads that works in phases; see crew.h. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crew.h"
#include "fail.h"
#include "phases.h"

#define PROGRESS_SECONDS 5
#define NO_PHASE	 (-1)

struct member {
	pthread_t thread;
	struct crew *crew;
	void *own;
	int64_t start_ns; /* of the present phase */
	int64_t end_ns;
	_Atomic uint64_t
		done; /* operations in the present phase; crew_phase() reads this for progress */
} __attribute__((aligned(128)));

struct crew {
	unsigned long threads;
	crew_work *work;
	int phase; /* set before the barrier; NO_PHASE: the threads end */
	pthread_barrier_t starts;
	sem_t ends; /* posted once by every thread */
	struct member members[];
};

static void *crew_member(void *argument)
{
	struct member *me = argument;
	struct crew *crew = me->crew;

	for (;;) {
		pthread_barrier_wait(&crew->starts);
		if (crew->phase == NO_PHASE)
			return NULL;
		me->start_ns = now_ns();
		crew->work(me->own, crew->phase, &me->done);
		me->end_ns = now_ns();
		sem_post(&crew->ends);
	}
}

struct crew *crew_start(unsigned long threads, crew_work *work, void *own, size_t own_bytes)
{
	size_t bytes = sizeof(struct crew) + threads * sizeof(struct member);
	/* aligned_alloc() takes multiples of the alignment */
	size_t align = _Alignof(struct member);
	struct crew *crew = must_alloc(aligned_alloc(align, (bytes + align - 1) / align * align));

	memset(crew, 0, bytes);
	crew->threads = threads;
	crew->work = work;
	if (pthread_barrier_init(&crew->starts, NULL, (unsigned int)threads + 1) != 0 ||
	    sem_init(&crew->ends, 0, 0) != 0)
		fail_errno("cannot be prepared", "the threads");
	for (unsigned long i = 0; i < threads; i++) {
		struct member *member = &crew->members[i];

		member->crew = crew;
		member->own = (char *)own + i * own_bytes;
		errno = pthread_create(&member->thread, NULL, crew_member, member);
		if (errno != 0)
			fail_errno("cannot be started (give fewer with THREADS=)", "the threads");
	}
	return crew;
}

static uint64_t total_done(struct crew *crew)
{
	uint64_t done = 0;

	for (unsigned long i = 0; i < crew->threads; i++)
		done += atomic_load_explicit(&crew->members[i].done, memory_order_relaxed);
	return done;
}

/* Waits until every thread has posted; prints a progress line every few seconds. */
static void wait_for_end(struct crew *crew, const char *name)
{
	struct timespec until;

	/* sem_timedwait(3) has no other clock; only the progress lines depend on CLOCK_REALTIME */
	if (clock_gettime(CLOCK_REALTIME, &until) != 0)
		fail_errno("cannot be read", "CLOCK_REALTIME");
	until.tv_sec += PROGRESS_SECONDS;
	for (unsigned long ended = 0; ended < crew->threads;) {
		if (sem_timedwait(&crew->ends, &until) == 0) {
			ended++;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != ETIMEDOUT)
			fail_errno("cannot be waited for", "the threads");
		printf("      %s: %" PRIu64 " so far\n", name, total_done(crew));
		fflush(stdout);
		until.tv_sec += PROGRESS_SECONDS;
	}
}

struct crew_span crew_phase(struct crew *crew, int phase, const char *name)
{
	struct crew_span span = { .start_ns = INT64_MAX };

	for (unsigned long i = 0; i < crew->threads; i++)
		atomic_store_explicit(&crew->members[i].done, 0, memory_order_relaxed);
	crew->phase = phase;
	phase_begin();
	pthread_barrier_wait(&crew->starts);
	wait_for_end(crew, name);
	for (unsigned long i = 0; i < crew->threads; i++) {
		const struct member *member = &crew->members[i];

		if (member->start_ns < span.start_ns)
			span.start_ns = member->start_ns;
		if (member->end_ns > span.end_ns)
			span.end_ns = member->end_ns;
	}
	span.done = total_done(crew);
	return span;
}

void crew_end(struct crew *crew)
{
	crew->phase = NO_PHASE;
	pthread_barrier_wait(&crew->starts);
	for (unsigned long i = 0; i < crew->threads; i++)
		pthread_join(crew->members[i].thread, NULL);
	sem_destroy(&crew->ends);
	pthread_barrier_destroy(&crew->starts);
	free(crew);
}
