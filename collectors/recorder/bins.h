/* SPDX-License-Identifier: BSD-2-Clause */
/* Emptying time bins that BPF programs add to; the rules are in bpf/bin_turns.h. */
#ifndef SEEKMETER_BINS_H
#define SEEKMETER_BINS_H

#include "recorder.h"

#include "records.h"

/*
 * Calls drain_bin for each bin that is over and that no program adds to any more, oldest first, and moves
 * *drained_to behind it, which the programs read. What is not settled yet is left for the next call; with `last`
 * (nothing is attached any more) all bins are drained.
 */
void bins_drain(const struct bin_turn *turns, int cpus, volatile uint64_t *drained_to,
		uint64_t bin_ns, bool last, void (*drain_bin)(uint64_t bin));

/*
 * Empties a bin's hash map. Calls take_sums whenever keys and sums, which have room for `most` entries, hold some.
 * False: not all could be read.
 */
bool bins_take(int map_fd, uint64_t bin, void *keys, void *sums, uint32_t most,
	       void (*take_sums)(uint64_t bin, uint32_t count));

#endif
