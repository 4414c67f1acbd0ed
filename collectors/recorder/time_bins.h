/* SPDX-License-Identifier: BSD-2-Clause */
/* Time bins that BPF programs add to: where they begin and end, and emptying them; the rules are in bpf/common/bin_epoch.h. */
#ifndef SEEKMETER_TIME_BINS_H
#define SEEKMETER_TIME_BINS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/records.h"

/* One set of bins, and what it shares with its programs. */
struct bins {
	const struct bin_epoch *epochs;
	struct bin_cuts *cuts;
	volatile uint64_t *drained_to;
	unsigned int slots;
	int cpus;
	void (*drain_bin)(uint64_t bin);
};

/* The length of every bin that no cut ends. Call once, first. */
void bins_set_length(uint64_t bin_ns);

/* From now on these bins are filled, and cut. The struct stays the caller's, until bins_end(). */
void bins_begin(struct bins *bins);

/* No program adds to them any more. Safe without bins_begin(). */
void bins_end(struct bins *bins);

/*
 * Calls drain_bin for each bin that is over and that no program adds to any more, oldest first, and moves
 * *drained_to behind it, which the programs read. What is not settled yet is left for the next call; with `last`
 * (nothing is attached any more) all bins are drained.
 */
void bins_drain(struct bins *bins, bool last);

/* When a bin began, and how long it is; of a bin that is over. */
uint64_t bins_start_ns(uint64_t bin);
uint64_t bins_length_ns(uint64_t bin);

/*
 * Cut all bins at a moment to come; 0: as soon as may be. Returns the cut's time, which is still to come. 0: it can't
 * be cut; *later: as the recorder is behind, so it may be soon, else as other cuts are on their way. For any thread.
 */
uint64_t bins_cut(uint64_t at_ns, bool *later);

/*
 * Empties a bin's hash map. Calls take_sums whenever keys and sums, which have room for `most` entries, hold some.
 * False: not all could be read.
 */
bool bins_take(int map_fd, uint64_t bin, void *keys, void *sums, uint32_t most,
	       void (*take_sums)(uint64_t bin, uint32_t count));

#endif
