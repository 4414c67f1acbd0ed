// SPDX-License-Identifier: BSD-2-Clause
/*
 * Threads that make one call each, all but the first of which is made to wait for a lock; for known_wait.c and
 * known_freeze.c. Every error ends the program, after put_back().
 */
#ifndef TESTS_ACTORS_H
#define TESTS_ACTORS_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proc.h"

#define PAGE	   4096
#define ACTORS_MAX 8
#define PATIENCE_S 60

struct actor {
	const char *name;
	long (*call)(void);
	pthread_t thread;
	int tid;
	int cpu; /* its only CPU; -1: any */
	unsigned long long begin_ns, end_ns;
};

static struct actor actors[ACTORS_MAX];
static int n_actors;

static void put_back(void); /* the program's own */

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	put_back();
	_exit(1);
}

static void pin(int cpu)
{
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only))
		die("sched_setaffinity");
}

static void *act(void *argument)
{
	struct actor *me = argument;

	prctl(PR_SET_NAME, me->name);
	if (me->cpu >= 0)
		pin(me->cpu);
	me->begin_ns = now_ns();
	__atomic_store_n(&me->tid, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
	if (me->call() < 0)
		die(me->name);
	me->end_ns = now_ns();
	return NULL;
}

static struct actor *start(const char *name, long (*call)(void), int cpu)
{
	struct actor *actor = &actors[n_actors++];

	*actor = (struct actor){ .name = name, .call = call, .cpu = cpu };
	if (pthread_create(&actor->thread, NULL, act, actor))
		die("pthread_create");
	return actor;
}

/*
 * Until /proc says it sleeps where no signal wakes it (those that kill may), and has left its CPU: it is in that state
 * a little before.
 */
static void until_it_waits(int tid)
{
	unsigned long long end_ns = now_ns() + PATIENCE_S * 1000000000ULL;
	char text[PROC_TEXT], *state;

	while (now_ns() < end_ns) {
		if (read_of(tid, "stat", text))
			die("/proc");
		state = strrchr(text, ')');
		if (state && !strncmp(state, ") D", 3) && sleeps_in_call(tid) >= 0)
			return;
		usleep(1000);
	}
	errno = ETIMEDOUT;
	die("it does not wait");
}

/* Returns when it waits. */
static void start_waiting(const char *name, long (*call)(void))
{
	struct actor *actor = start(name, call, -1);

	while (!__atomic_load_n(&actor->tid, __ATOMIC_ACQUIRE))
		usleep(100);
	until_it_waits(actor->tid);
}

/* Waits for all, and prints each one's call and when the waits were let end, as a JSON object. */
static void finish(unsigned long long ended_ns)
{
	for (int i = 0; i < n_actors; i++)
		if (actors[i].thread)
			pthread_join(actors[i].thread, NULL);
	printf("{\"ended_ns\":%llu", ended_ns);
	for (int i = 0; i < n_actors; i++)
		printf(",\"%s\":{\"begin_ns\":%llu,\"end_ns\":%llu}", actors[i].name,
		       actors[i].begin_ns, actors[i].end_ns);
	puts("}");
}

#endif
