// SPDX-License-Identifier: BSD-2-Clause
/* Where on disk does a file begin? */
#ifndef GENERATORS_PLACE_H
#define GENERATORS_PLACE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Where the first byte that the open file has on disk lies, in bytes, in the file system's own addresses (those of
 * its device; of btrfs those of the volume, which chunks are laid out in). False: the file system does not tell (it
 * has no FIEMAP), or the file has no place of its own: it is empty, not written back yet, or kept in metadata.
 */
bool place_on_disk(int fd, uint64_t *place);

#endif
