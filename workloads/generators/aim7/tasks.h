// SPDX-License-Identifier: BSD-2-Clause
/* A step of aim7's ramp: a number of tasks run at once. A task is a process that does all jobs of a mix, shuffled. */
#ifndef GENERATORS_AIM7_TASKS_H
#define GENERATORS_AIM7_TASKS_H

#include <stdint.h>

#include "jobs.h"

#define TASKS_MAX 4096
#define JOBS_MAX  128

struct mix {
	unsigned int n;
	struct entry {
		const struct job *job;
		unsigned int units;
	} jobs[JOBS_MAX];
};

struct step {
	unsigned int tasks;
	unsigned int rounds;
	double seconds; /* from the first task's start to the last task's end, sum of all rounds */
	double jobs_per_min;
	double own_cpu_pct;
};

/*
 * Runs one round of a step, as one phase. Each task makes its directory in the directory TOP_FD and removes it at the
 * end. An error of a task ends all tasks and the program.
 */
struct step run_step(const struct mix *mix, int top_fd, unsigned int tasks, uint64_t seed);

#endif
