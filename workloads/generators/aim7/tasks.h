// SPDX-License-Identifier: BSD-2-Clause
/* A step of aim7's ramp: so many tasks at once, processes that each do all jobs of a mix in an order of their own. */
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
	double seconds; /* from the first task's start to the last one's end, all rounds */
	double jobs_per_min;
	double own_cpu_pct;
};

/*
 * One round. The tasks' directories are made in the directory TOP_FD, and are gone afterwards. The round is a phase.
 * An error of a task ends the program, and all tasks.
 */
struct step run_step(const struct mix *mix, int top_fd, unsigned int tasks, uint64_t seed);

#endif
