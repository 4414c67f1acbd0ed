/* SPDX-License-Identifier: BSD-2-Clause */
/* Facts of a disk's queue, and of the recording's own files, as keys of run.json. */
#ifndef SEEKMETER_ALONE_DISK_FACTS_H
#define SEEKMETER_ALONE_DISK_FACTS_H

#include <stdio.h>

#include "alone/devices.h"

/* Writes "model":…,"scheduler":…,"rotational":…,"queue":{…} as workloads/disks/queue.py reads them. */
void disk_facts_write(FILE *out, const struct device *device);
/*
 * Writes ,"own_files":{"dev":…,"inodes":[…]}: on a disk that is watched, requests of these files are the recording's
 * own.
 */
void own_files_write(FILE *out, int dir_fd);

#endif
