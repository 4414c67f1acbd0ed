// SPDX-License-Identifier: BSD-2-Clause
/* Named threads that write down what they did and when, and what the kernel counted of them; for known_times.c. */
#ifndef TESTS_KNOWN_THREADS_H
#define TESTS_KNOWN_THREADS_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "taskstats.h"

#define MOST_PIECES 4096
#define MOST_NAMED  4

struct known_thread {
	const char *name;
	void (*body)(void);
	pthread_t thread;
	int tid;
	unsigned long long begin_ns, end_ns;
	struct thread_counts counts;
};

struct piece {
	const char *thread, *what;
	unsigned long long begin_ns, end_ns;
};

static struct known_thread threads[MOST_NAMED];
static struct piece pieces[MOST_PIECES];
static int n_threads, n_pieces;
static _Thread_local struct known_thread *me;

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "known_times: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void did(const char *what, unsigned long long begin_ns)
{
	int number = __atomic_fetch_add(&n_pieces, 1, __ATOMIC_RELAXED);

	if (number < MOST_PIECES)
		pieces[number] = (struct piece){ me->name, what, begin_ns, now_ns() };
}

static void *run(void *argument)
{
	me = argument;
	me->begin_ns = now_ns();
	me->tid = (int)syscall(SYS_gettid);
	prctl(PR_SET_NAME, me->name);
	me->body();
	me->end_ns = now_ns(); /* before the counts, whose taking belongs to what follows */
	if (count_myself(me->tid, &me->counts))
		die("taskstats");
	return NULL;
}

static struct known_thread *start(const char *name, void (*body)(void))
{
	struct known_thread *thread = &threads[n_threads++];

	*thread = (struct known_thread){ .name = name, .body = body };
	if (pthread_create(&thread->thread, NULL, run, thread))
		die("pthread_create");
	return thread;
}

static void print_thread(const struct known_thread *thread)
{
	printf("{\"name\":\"%s\",\"tid\":%d,\"begin_ns\":%llu,\"end_ns\":%llu,", thread->name,
	       thread->tid, thread->begin_ns, thread->end_ns);
	printf("\"run_ns\":%llu,\"run_delay_ns\":%llu,", thread->counts.run_ns,
	       thread->counts.run_delay_ns);
	printf("\"blkio_ns\":%llu,\"reclaim_ns\":%llu,", thread->counts.blkio_ns,
	       thread->counts.reclaim_ns);
	printf("\"sleeps\":%ld,\"preemptions\":%ld}", thread->counts.sleeps,
	       thread->counts.preemptions);
}

static void print(const char *mode)
{
	printf("{\"mode\":\"%s\",\"pid\":%d,\"threads\":[", mode, (int)getpid());
	for (int i = 0; i < n_threads; i++) {
		print_thread(&threads[i]);
		printf("%s", i + 1 < n_threads ? "," : "],\"pieces\":[");
	}
	for (int i = 0; i < n_pieces && i < MOST_PIECES; i++)
		printf("%s{\"thread\":\"%s\",\"what\":\"%s\",\"begin_ns\":%llu,\"end_ns\":%llu}",
		       i ? "," : "", pieces[i].thread, pieces[i].what, pieces[i].begin_ns,
		       pieces[i].end_ns);
	puts("]}");
}

#endif
