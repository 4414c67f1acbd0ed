/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of threads by number, from the trace's process notes. Bounded: a newer one may take an old one's place. */
#ifndef SEEKMETER_BLKTRACE_NAMES_H
#define SEEKMETER_BLKTRACE_NAMES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"

#define NAMES_SETS (1U << 14)
#define NAMES_WAYS 4

struct name {
	uint32_t pid; /* 0: the idle thread, which submits nothing */
	char comm[COMM_BYTES];
};

struct names {
	struct name (*sets)[NAMES_WAYS]; /* newest first */
};

static inline int names_init(struct names *names)
{
	names->sets = calloc(NAMES_SETS, sizeof(*names->sets));
	return names->sets ? 0 : -1;
}

static inline void names_set(struct names *names, uint32_t pid, const unsigned char *comm)
{
	struct name *set = names->sets[pid & (NAMES_SETS - 1)];
	int way = 0;

	while (way < NAMES_WAYS - 1 && set[way].pid != pid)
		way++;
	memmove(set + 1, set, way * sizeof(*set));
	set[0].pid = pid;
	memcpy(set[0].comm, comm, COMM_BYTES);
}

/* Zeros if there was no note. */
static inline void names_get(const struct names *names, uint32_t pid, char *comm)
{
	const struct name *set = names->sets[pid & (NAMES_SETS - 1)];

	for (int way = 0; way < NAMES_WAYS; way++)
		if (set[way].pid == pid) {
			memcpy(comm, set[way].comm, COMM_BYTES);
			return;
		}
	memset(comm, 0, COMM_BYTES);
}

#endif
