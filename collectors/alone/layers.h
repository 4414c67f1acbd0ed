/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which devices are recorded of a watched one, as collectors/host/layers.py chooses them: the disks below by requests,
 * the volumes by bios, other volumes made of the same parts ("neighbours"), too.
 */
#ifndef SEEKMETER_ALONE_LAYERS_H
#define SEEKMETER_ALONE_LAYERS_H

#include "alone/devices.h"

struct options;

struct layers {
	struct indexes roots; /* the watched disk, and the uppermost volumes on it */
	struct indexes names; /* every device from the roots down, then neighbours; no partitions */
	struct indexes recorded;    /* of the names */
	struct indexes neighbours;  /* of the names */
	struct indexes below_loops; /* of the names: not recorded, as their I/O is another file's */
};

/* watched: index of the whole device. */
void layers_choose(const struct devices *all, int watched, struct layers *layers);
void layers_free(struct layers *layers);
/* Sets the options --disk, --hidden, --volume, --component and --counted; 0, or -1: the error is printed. */
int layers_to_options(const struct devices *all, const struct layers *layers,
		      struct options *options);
/* The number of a device, "8:0"; hidden paths of NVMe multipath get one that no device of the kernel has. */
void layers_number(const struct devices *all, const struct layers *layers, int index, char dev[32]);
/* Why a device is not recorded; "": it is. */
const char *layers_why_not(const struct layers *layers, int index);

#endif
