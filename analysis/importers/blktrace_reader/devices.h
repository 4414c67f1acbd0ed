/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices of a trace: the kind of each, and how many of its events are missing. */
#ifndef SEEKMETER_BLKTRACE_DEVICES_H
#define SEEKMETER_BLKTRACE_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "events.h"
#include "pieces.h"

#define MAX_DEVICES 256
#define MAX_CPUS    8192 /* the kernel's own limit */
#define MAX_REMAPS  64

/* The events of one CPU: numbered without a gap by the kernel, so those between least and most must be there. */
struct sequence {
	uint32_t least, most; /* least 0: none yet */
	uint32_t count;
};

/* The submitter of the next flush, and how many flushes it may cause. */
struct flush_waiter {
	uint64_t queue_ns;
	uint32_t pid;
	bool before, after; /* the data; after: only if the device can't write through */
	char comm[COMM_BYTES];
};

struct device {
	uint32_t number;
	bool takes_requests; /* seen; else it takes bios (device mapper, md, zram) */
	bool writes_through; /* has FUA itself */
	struct flush_waiter waiter;
	uint64_t events, rows;
	struct sequence *sequences; /* by CPU */
	uint32_t cpus;
};

/* Requests to one device that went on to another. */
struct remap {
	uint32_t from, to;
	uint64_t count;
};

struct devices {
	struct device *table; /* in order of appearance */
	size_t count;
	struct device *last;
	struct remap remaps[MAX_REMAPS];
	size_t remap_count;
};

int devices_init(struct devices *devices);
void devices_free(struct devices *devices);
/* NULL: there are too many. */
struct device *devices_find(struct devices *devices, uint32_t number);
/* Counts an event's sequence number. Returns -1 without memory. */
int devices_number(struct device *device, const struct event *event);
/* Missing events, by gaps in the sequence numbers. */
uint64_t devices_missing(const struct devices *devices);
void devices_remap(struct devices *devices, uint32_t from, uint32_t to);

#endif
