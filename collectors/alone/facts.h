/* SPDX-License-Identifier: BSD-2-Clause */
/* alone.json: what an import needs besides the tables. Its keys are those of run.json (docs/SCHEMA.md). */
#ifndef SEEKMETER_ALONE_FACTS_H
#define SEEKMETER_ALONE_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "alone/devices.h"
#include "alone/journals.h"
#include "alone/layers.h"
#include "alone/mounts.h"

#define MOST_MOUNTS   256 /* MAX_TARGETS of recorder/options.h */
#define MOST_WARNINGS 16

/* The kernel's counters of the devices of the layers, in the order of layers.names. */
struct counters {
	unsigned long long (*fields)[14]; /* of /sys/class/block/NAME/stat */
	bool *is_known;
};

/* Where the journal of a mounted file system lies. */
struct journal_place {
	int count; /* of the extents; 0: it has none of its own; -1: not known */
	struct extent extents[MOST_EXTENTS];
};

struct facts {
	const char *given; /* the device as named */
	int watched;	   /* index of the device */
	struct devices devices, devices_after;
	struct layers layers;
	struct mounted_list mounted;
	struct journal_place *journals; /* of each mounted one, in that order */
	struct counters start, end;
	char *machine; /* "kernel" and "machine", read once */
	int64_t realtime_offset_ns;
	uint64_t start_ns, end_ns; /* of the recording; 0: not yet */
	const char *state;	   /* recording, complete */
	const char *ended;	   /* time, signal, size, floor; NULL: it runs */
	char warnings[MOST_WARNINGS][256];
	int warning_count;
};

struct options;

/* Reads where the journals lie, before the recording begins: these reads are requests, too. */
void facts_read_journals(struct facts *facts);
void counters_read(const struct facts *facts, struct counters *counters);
void facts_warn(struct facts *facts, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Replaces DIR/alone.json; 0, or -1 with errno. */
int facts_write(const struct facts *facts, const struct options *options, int dir_fd);

#endif
