// SPDX-License-Identifier: BSD-2-Clause
/*
 * The kinds of jobs that aim7's tasks do. A job does UNITS times a fixed piece of work; any error, and any
 * result that is not what it must be, ends the program.
 */
#ifndef GENERATORS_AIM7_JOBS_H
#define GENERATORS_AIM7_JOBS_H

#include <stdint.h>

#include "common/stats/rng.h"

struct task {
	unsigned int number;
	int dir_fd;	/* its own directory, in which its disk file "disk" is */
	uint64_t bytes; /* of file data that it has read and written */
	struct rng rng;
};

struct job {
	const char *name;
	void (*run)(struct task *task, unsigned int units, int what);
	int what; /* told to run: which of several */
};

extern const struct job cpu_jobs[];	/* each list ends with a NULL name */
extern const struct job process_jobs[]; /* processes, pipes, signals, sockets, shared memory */
extern const struct job disk_jobs[];

#define DISK_BYTES  (256 * 1024) /* of the file "disk" */
#define BLOCK_BYTES 4096

/* The file "disk" of a new task, in its directory. */
void make_disk_file(struct task *task);

/* The whole of it must be what this task wrote last. */
void verify_disk_file(struct task *task);

/* For main(): what an exec job runs. */
#define EXEC_WORD "--nothing"

#endif
