// SPDX-License-Identifier: BSD-2-Clause
/*
 * The kinds of jobs that aim7's tasks do. A job does a fixed piece of work UNITS times. An error or a wrong result ends
 * the program.
 */
#ifndef GENERATORS_AIM7_JOBS_H
#define GENERATORS_AIM7_JOBS_H

#include <stdint.h>

#include "common/stats/rng.h"

struct task {
	unsigned int number;
	int dir_fd;	/* the task's directory, with its file "disk" */
	uint64_t bytes; /* file data read and written so far */
	struct rng rng;
};

struct job {
	const char *name;
	void (*run)(struct task *task, unsigned int units, int variant);
	int variant; /* argument of run(): the variant of the job */
};

extern const struct job cpu_jobs[];	/* each list ends with a NULL name */
extern const struct job process_jobs[]; /* processes, pipes, signals, sockets, shared memory */
extern const struct job disk_jobs[];

#define DISK_BYTES  (256 * 1024) /* of the file "disk" */
#define BLOCK_BYTES 4096

/* Creates the file "disk" in the directory of a new task. */
void make_disk_file(struct task *task);

/* Compares every block of "disk" with the version that this task wrote last. */
void verify_disk_file(struct task *task);

/* An exec job runs aim7 with this option alone; main() then returns at once. */
#define EXEC_OPTION "--nothing"

#endif
