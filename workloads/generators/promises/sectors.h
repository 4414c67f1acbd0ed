// SPDX-License-Identifier: BSD-2-Clause
/*
 * Contents that describe themselves: each 512 B sector names its file, the file's version and its own place, and is
 * filled with words made of these. So a reader tells a whole sector from a torn, old or foreign one without knowing what
 * was written there.
 */
#ifndef PROMISES_SECTORS_H
#define PROMISES_SECTORS_H

#include <stdbool.h>
#include <stdint.h>

#define SECTOR_BYTES 512

struct sector_id {
	uint64_t file;
	uint32_t version;
	uint32_t sector; /* of the file, from 0 */
};

/* Fills TO, SECTOR_BYTES bytes. SEED: of the run, so that an earlier run's sectors are foreign. */
void sector_fill(void *to, uint64_t seed, const struct sector_id *id);

/* Returns whether FROM is a whole sector of this seed, and sets ID. */
bool sector_read(const void *from, uint64_t seed, struct sector_id *id);

#endif
