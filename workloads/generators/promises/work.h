// SPDX-License-Identifier: BSD-2-Clause
/* What the threads of promises do: operations on their own files, each logged before and after. */
#ifndef PROMISES_WORK_H
#define PROMISES_WORK_H

#include <stdint.h>

#include "common/stats/rng.h"
#include "promises/names.h"

#define FILE_SECTORS_MAX	     128
#define VERSION_SECTORS_MAX_APPENDED 8

/* A slot's file; number 0: none. */
struct kept_file {
	uint64_t number;
	uint32_t version;
	uint32_t sectors; /* of a version */
	int is_appended;  /* a version lies behind the one before, not over it */
};

struct promiser {
	uint32_t thread;
	int dirs[DIRS_PER_THREAD];
	uint64_t seed; /* of the contents */
	struct rng rng;
	uint64_t files;	     /* made so far */
	uint64_t operations; /* the thread's share */
	uint64_t bytes;
	uint64_t syncs;
	struct kept_file slots[DIRS_PER_THREAD][SLOTS_PER_DIR];
	char buffer[FILE_SECTORS_MAX * 512];
} __attribute__((aligned(128)));

/* Makes the directories of all threads below TOP in DIR_FD, and syncs them upwards. */
void make_directories(int dir_fd, const char *dir, struct promiser *promisers, uint64_t threads);

/* Does one operation, chosen by chance. An error ends the program. */
void promise_something(struct promiser *me);

#endif
