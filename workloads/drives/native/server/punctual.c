// SPDX-License-Identifier: BSD-2-Clause
#include "punctual.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

#define STACK_BYTES (256U << 10)

static bool is_realtime;

static void because(char why[160], const char *what)
{
	snprintf(why, 160, "%s: %s", what, strerror(errno));
}

static int write_text(const char *path, const char *text, size_t bytes, bool keep)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t wrote;

	if (file < 0)
		return -1;
	wrote = write(file, text, bytes);
	if (wrote != (ssize_t)bytes) {
		close(file);
		return -1;
	}
	/* /dev/cpu_dma_latency holds its value as long as the file is open. */
	if (!keep)
		close(file);
	return 0;
}

void punctual_process(struct punctuality *punctuality)
{
	struct sched_param priority = { .sched_priority = 1 };
	cpu_set_t cpus;

	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
		because(punctuality->flusher, "PR_SET_IO_FLUSHER");
	if (write_text("/dev/cpu_dma_latency", "\0\0\0\0", 4, true))
		because(punctuality->awake, "/dev/cpu_dma_latency");
	if (write_text("/proc/self/oom_score_adj", "-1000", 5, false))
		because(punctuality->spared, "/proc/self/oom_score_adj");
	if (prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0))
		fprintf(stderr, "drive-server: PR_SET_TIMERSLACK: %s\n", strerror(errno));
	/* Tried here, so that the reason is known; the control thread itself has no priority. */
	is_realtime = !sched_setscheduler(0, SCHED_FIFO, &priority);
	if (!is_realtime)
		because(punctuality->realtime, "SCHED_FIFO");
	priority.sched_priority = 0;
	if (is_realtime && sched_setscheduler(0, SCHED_OTHER, &priority))
		fprintf(stderr, "drive-server: SCHED_OTHER: %s\n", strerror(errno));
	if (!is_realtime && setpriority(PRIO_PROCESS, 0, -20))
		fprintf(stderr, "drive-server: nice -20: %s\n", strerror(errno));
	punctuality->cpus = 1;
	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		punctuality->cpus = CPU_COUNT(&cpus);
}

void punctual_lock(struct punctuality *punctuality)
{
	struct rlimit none = { .rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY };

	if (setrlimit(RLIMIT_MEMLOCK, &none) && errno != EPERM)
		fprintf(stderr, "drive-server: RLIMIT_MEMLOCK: %s\n", strerror(errno));
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		because(punctuality->locked, "mlockall");
}

int punctual_thread(void *(*run)(void *), void *argument, int priority)
{
	struct sched_param parameters = { .sched_priority = priority };
	pthread_attr_t attributes;
	pthread_t thread;
	int failed;

	failed = pthread_attr_init(&attributes);
	if (!failed)
		failed = pthread_attr_setstacksize(&attributes, STACK_BYTES);
	if (!failed && is_realtime && priority) {
		failed = pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
		if (!failed)
			failed = pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
		if (!failed)
			failed = pthread_attr_setschedparam(&attributes, &parameters);
	}
	if (!failed)
		failed = pthread_create(&thread, &attributes, run, argument);
	pthread_attr_destroy(&attributes);
	errno = failed;
	return failed ? -1 : 0;
}
