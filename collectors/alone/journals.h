/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the journal of a mounted ext3, ext4 or XFS lies on its device: requests there are the journal's. */
#ifndef SEEKMETER_ALONE_JOURNALS_H
#define SEEKMETER_ALONE_JOURNALS_H

#include <stdint.h>

#include "alone/devices.h"

#define MOST_EXTENTS 64

struct extent {
	uint64_t start, end; /* [start, end) in sectors of the device */
};

/*
 * Reads the journal's extents from the device's superblock; returns their number. 0: it has none of its own (another
 * file system, an external journal). -1: it can't be read.
 */
int journal_read(const struct device *device, const char *kind,
		 struct extent extents[MOST_EXTENTS]);

#endif
