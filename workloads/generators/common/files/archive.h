// SPDX-License-Identifier: BSD-2-Clause
/* A population as a tar archive (POSIX ustar), and where archives are kept to be used again. */
#ifndef GENERATORS_ARCHIVE_H
#define GENERATORS_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "population.h"

/* Bytes of the archive for its end and its directories, and for a file. The sum is what archive_write() writes. */
uint64_t archive_overhead(uint32_t second_level);
uint64_t archive_file_bytes(uint64_t bytes);
uint64_t archive_bytes(const struct population *all);

/* FD may be a pipe. PATH is for messages. */
void archive_write(const struct population *all, int fd, const char *path);

/*
 * The archive of this population, open for reading at its beginning: one that was made before if there is one and its
 * checksum is right, else a new one. Kept in $SEEKMETER_SCRATCH/webcache (default /var/tmp/seekmeter): the
 * ARCHIVES_KEPT newest.
 */
#define ARCHIVES_KEPT 3
int archive_open(const struct population *all, bool *made);

/* Remove all archives that are kept. Returns how many. */
int archive_remove_all(void);

#endif
