// SPDX-License-Identifier: BSD-2-Clause
/* The disk offset of a file. */
#ifndef GENERATORS_FILE_OFFSET_H
#define GENERATORS_FILE_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Sets *offset to the disk offset of the open file's first extent, in bytes (FIEMAP). It is an offset in the device, on
 * btrfs in the volume's logical addresses. False: the file system has no FIEMAP, or the file has no extent of its own:
 * it is empty, not written back yet, or inline in metadata.
 */
bool file_offset_on_disk(int fd, uint64_t *offset);

#endif
