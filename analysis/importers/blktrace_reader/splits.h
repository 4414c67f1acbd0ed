/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where bios were split, as blkparse 1.3 remembers it: the parts of a bio by their first sectors, each once, for the
 * whole trace. It moves the start of every later completion at such a sector back to the start of that bio, as is right
 * where the bio completes as one (device mapper, md). Where each part is a request of its own, the completion is then
 * longer than what was issued, and begins elsewhere.
 */
#ifndef SEEKMETER_BLKTRACE_SPLITS_H
#define SEEKMETER_BLKTRACE_SPLITS_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_SPLITS \
	(1U << 21) /* blkparse has no bound; later ones are not known, their completions are lost */

struct split {
	uint64_t sector, root; /* root: of the bio's first part */
	uint32_t device;
	bool used;
};

struct splits {
	struct split *table; /* by hash; room is a power of two */
	uint32_t room, count;
};

/* A bio, or the rest of one, at `sector` was split at `at`. Returns -1 without memory. */
int splits_add(struct splits *splits, uint32_t device, uint64_t sector, uint64_t at);
/* The start of the bio whose part began here; the sector itself if none did. */
uint64_t splits_root(const struct splits *splits, uint32_t device, uint64_t sector);
void splits_free(struct splits *splits);

#endif
