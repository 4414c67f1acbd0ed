/* SPDX-License-Identifier: BSD-2-Clause */
/* The programs of events.bpf.c by source: which of them this kernel has the tracepoints for, and what it does not show. */
#ifndef SEEKMETER_EVENT_SOURCES_H
#define SEEKMETER_EVENT_SOURCES_H

#include <stdbool.h>

#include "common/records.h"

struct bpf_object;
struct options;

/* Each is loaded or left out as a whole: a kernel that refuses one still has the others. */
enum event_source {
	SOURCE_JOURNAL,
	SOURCE_XFS,
	SOURCE_BTRFS,
	SOURCE_F2FS,
	SOURCE_WRITEBACK,
	SOURCE_MEMORY,
	SOURCES,
};

#define ALL_SOURCES ((1U << SOURCES) - 1)

/* Reads the kernel's tracepoints. False: its types can't be read. */
bool sources_find(void);
/* Chooses the programs of these sources (bits) that this kernel can run. 0, or -1. */
int sources_choose(struct bpf_object *object, unsigned int sources);
/* Has this source a program that this kernel can run? */
bool source_is_here(enum event_source source);
/* Can the end of a wait for the log of XFS be seen? */
bool source_shows_log_waits(void);
/* As in the tables. */
const char *source_kind_name(enum event_kind kind);
/* event_kind.jsonl: each kind, and whether events of it can be seen. refused: bits of sources. 0, or -1 with errno. */
int sources_write(const struct options *options, unsigned int refused);

#endif
