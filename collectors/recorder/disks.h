/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that are recorded, by the options that name them:
 *
 *   --disk NAME            a disk with a request queue (blk-mq): its requests
 *   --hidden 4095:N=NAME   the same for a path of NVMe multipath, which has no device number: it gets this one
 *   --volume NAME          a device above disks (dm, md, bcache, zram, the head of NVMe multipath): its bios
 *   --component MAJOR:MINOR  a partition, disk or volume that a recorded volume is made of
 *   --counted NAME         a device that is not recorded: only its counters are sampled
 *
 * Names are those of /sys/block. Disks and volumes together are at most MAX_DEVS.
 */
#ifndef SEEKMETER_DISKS_H
#define SEEKMETER_DISKS_H

#include <stdint.h>

struct options;

/* Each adds what the option's text names; 0, or -1: the error is printed. */
int disks_add(struct options *options, const char *name);
int disks_add_hidden(struct options *options, const char *text);
int disks_add_volume(struct options *options, const char *name);
int disks_add_component(struct options *options, const char *text);
int disks_add_counted(struct options *options, const char *name);

/*
 * Index of the recorded volume that holds a component, major << 20 | minor; -1: none does, or several, as the volumes of
 * one LVM disk do.
 */
int disks_holder(const struct options *options, uint32_t component);

#endif
