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

#define MAX_DEVICES  256
#define MAX_CPUS     8192 /* the kernel's own limit */
#define MAX_REMAPS   1024
#define LAST_FLUSHES 8
#define ZERO_PLACES  16

/* The events of one CPU: numbered without a gap by the kernel, so those between least and most must be there. */
struct sequence {
	uint32_t least, most; /* least 0: none yet */
	uint32_t count;
};

/* The submitter of the next flush, and how many flushes it may cause. */
struct flush_waiter {
	uint64_t queue_ns;
	struct origin origin;
	uint32_t pid;
	bool before, after; /* the data; after: only if the device can't write through */
	char comm[COMM_BYTES];
};

/* A bio of a volume that asks for a flush. */
struct flush_bio {
	uint64_t id, sector;
	uint32_t thread;
};

struct device {
	uint32_t number;
	bool takes_requests; /* seen; else it takes bios (device mapper, md, zram) */
	bool queues;	     /* a bio of it was queued (Q) */
	bool remaps;	     /* its bios or requests went on to another device: it is a volume */
	bool ends_bios;	     /* a bio of it ended that was no request */
	bool is_below;	     /* bios of another volume of the trace came to it */
	bool splits_bios;
	bool has_parity; /* raid 4, 5, 6: several places serve its sector 0, as parity is traced */
	bool writes_through; /* has FUA itself */
	struct flush_waiter waiter;
	struct flush_bio flushes[LAST_FLUSHES]; /* the last ones, in a ring */
	uint32_t flush_count;
	struct zero_place {
		uint32_t on; /* 0: none */
		uint64_t at;
	} zero_writes[ZERO_PLACES];  /* the first on each disk that is said to serve sector 0 */
	struct zero_place zero_read; /* where sector 0 was read */
	uint64_t events, rows, bio_rows;
	struct sequence *sequences; /* by CPU */
	uint32_t cpus;
};

/* Bios or requests to one device that went on to another. */
struct remap {
	uint32_t from, to;
	uint32_t through;      /* the partition of `to` that they went through; 0: none */
	bool is_linear;	       /* all are moved by the same number of sectors */
	uint64_t first_sector; /* that number */
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
/* NULL: the trace has no event of it. */
struct device *devices_known(struct devices *devices, uint32_t number);
/* Counts an event's sequence number. Returns -1 without memory. */
int devices_number(struct device *device, const struct event *event);
/* Missing events, by gaps in the sequence numbers. */
uint64_t devices_missing(const struct devices *devices);
/* Counts a remap. */
void devices_remap(struct devices *devices, uint32_t from, uint64_t from_sector, uint32_t to,
		   uint64_t to_sector);
/* NULL: there was none from this device to that one, or there are too many. */
struct remap *devices_find_remap(struct devices *devices, uint32_t from, uint32_t to);

/* A row of it is a bio, in the table of volumes. */
static inline bool device_is_volume(const struct device *device)
{
	return device->remaps || (device->ends_bios && !device->takes_requests);
}

/* It is a volume, or what comes later in the trace may make it one. */
static inline bool device_may_be_volume(const struct device *device)
{
	return device->remaps || !device->takes_requests;
}

/* A volume that takes bios: no request of it was seen. */
static inline bool device_is_bio_volume(const struct device *device)
{
	return !device->takes_requests && device_is_volume(device);
}

#endif
