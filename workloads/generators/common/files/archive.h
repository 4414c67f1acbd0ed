// SPDX-License-Identifier: BSD-2-Clause
/* Writes a population as a tar archive (ustar.h), and keeps archives for later runs (archive_store.c). */
#ifndef GENERATORS_ARCHIVE_H
#define GENERATORS_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "population.h"

/* Returns the number of bytes that archive_write() writes. */
uint64_t archive_bytes(const struct population *all);

/* Writes the archive to fd, which may be a pipe. path is for messages. */
void archive_write(const struct population *all, int fd, const char *path);

/*
 * Returns the archive of this population, open for reading at its beginning: a kept archive if its checksum is right,
 * else a new archive (*made is true). The ARCHIVES_KEPT newest archives are kept, in $SEEKMETER_SCRATCH/webcache or,
 * without that variable, in ~/.cache/seekmeter/webcache.
 */
#define ARCHIVES_KEPT 3
int archive_open(const struct population *all, bool *made);

/* Removes all kept archives. Returns the number of removed archives. */
int archive_remove_all(void);

#endif
