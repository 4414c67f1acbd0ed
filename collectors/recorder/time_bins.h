/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time bins that BPF programs add to: their begin and length, cutting and emptying them. The protocol between the
 * recorder and the programs is in bpf/common/bin_epoch.h.
 */
#ifndef SEEKMETER_TIME_BINS_H
#define SEEKMETER_TIME_BINS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/records.h"

/* One set of bins, and the memory that it shares with its programs. */
struct bins {
	const struct bin_epoch *epochs;
	struct bin_cuts *cuts;
	volatile uint64_t *drained_to;
	unsigned int slots;
	int cpus;
	void (*drain_bin)(uint64_t bin);
};

/* Sets the length of every bin that no cut ends. To be called once, first. */
void bins_set_length(uint64_t bin_ns);

/* These bins are filled, and cut, from now on. The struct must stay valid until bins_end(). */
void bins_begin(struct bins *bins);

/* No program adds to these bins any more. Safe without bins_begin(). */
void bins_end(struct bins *bins);

/*
 * Calls drain_bin for each bin that is over and that no program adds to any more, oldest first, and moves
 * *drained_to, which the programs read, behind that bin. Bins to which a program may still be adding wait for the next
 * call; with `last` (no program is attached any more) all bins are drained.
 */
void bins_drain(struct bins *bins, bool last);

/* Whether all bins that end until this time are emptied. */
bool bins_are_drained(uint64_t ns);

/* When a bin began, and its length. The bin must be over. */
uint64_t bins_start_ns(uint64_t bin);
uint64_t bins_length_ns(uint64_t bin);

/* The number of the bin that this time is in; of a time that is not past, a cut may still change the bin's end. */
uint64_t bins_number(uint64_t ns);
/*
 * Splits an interval at the borders of bins: calls `add` with each bin's begin and length, and the part in it. Bins that
 * the interval fills wholly, up to the next cut, are one. The bins must be over.
 */
void bins_split(uint64_t begin_ns, uint64_t end_ns,
		void (*add)(uint64_t bin_ns, uint64_t bin_length_ns, uint64_t part_begin_ns,
			    uint64_t part_end_ns));

/*
 * Cuts all bins at a future time; 0: as soon as possible. Returns the time of the cut, still in the future; or 0 where
 * no cut can be made. *later: the recorder is behind, and a cut may be possible soon; else other cuts are pending. For
 * any thread.
 */
uint64_t bins_cut(uint64_t at_ns, bool *later);

/*
 * Empties a bin's hash map, in batches of at most `most` entries: calls take_sums for each batch in keys and sums.
 * False: the map could not be read to its end.
 */
bool bins_take(int map_fd, uint64_t bin, void *keys, void *sums, uint32_t most,
	       void (*take_sums)(uint64_t bin, uint32_t count));

#endif
