/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The block devices of this machine and how they lie on each other, from /sys/class/block.
 *
 * The same graph as workloads/system/device_graph.py reads, for a machine without Python.
 */
#ifndef SEEKMETER_ALONE_DEVICES_H
#define SEEKMETER_ALONE_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "alone/sysfs.h"

#define MOST_FACTS 8

/* Indexes of devices, each once. */
struct indexes {
	int *at;
	int count, room;
};

/* What sysfs tells of a device of its kind: a key of run.json's "stack", and a text or number. */
struct fact {
	const char *key;
	char text[TEXT_MOST];
	bool is_number;
	bool is_state; /* may change while it is recorded */
};

struct device {
	char name[NAME_MOST];	    /* as in /sys/class/block */
	char place[PATH_MOST];	    /* its real directory */
	char dev[32];		    /* "8:2"; "": a hidden path of NVMe multipath */
	char label[TEXT_MOST + 16]; /* what a person calls the device */
	const char *kind;
	bool is_partition;
	bool has_queue;			/* takes requests (blk-mq) */
	int disk;			/* index of the whole device */
	uint64_t first_sector, sectors; /* of 512 bytes; the first on its disk */
	struct indexes below, above;
	struct fact facts[MOST_FACTS];
	int fact_count;
};

struct devices {
	struct device *at;
	int count, room;
};

/* Reads all devices; false: no memory. */
bool devices_read(struct devices *all);
void devices_free(struct devices *all);
/* Index of a device; -1: none. */
int device_named(const struct devices *all, const char *name);
int device_numbered(const struct devices *all, const char *dev);
/* Index of the device that a person named: sda, dm-0, /dev/vg/root, mapper/luks; -1: none. */
int device_given(const struct devices *all, const char *given);

bool is_leaf(const struct device *device);   /* a disk with requests */
bool is_volume(const struct device *device); /* a device whose bios are recorded */

bool indexes_have(const struct indexes *list, int index);
void indexes_add(struct indexes *list, int index);
void indexes_free(struct indexes *list);
/* All devices below (or above) a device, nearest first; not through loop devices if so asked. */
struct indexes devices_below(const struct devices *all, int index, bool through_loops);
struct indexes devices_above(const struct devices *all, int index, bool through_loops);

/* Sets kind, label and facts of a whole device (device_kinds.c). */
void describe_device(struct device *device);

#endif
