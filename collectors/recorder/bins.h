/* SPDX-License-Identifier: BSD-2-Clause */
/* Emptying time bins that BPF programs add to; the rules are in bpf/bin_turns.h. */
#ifndef SEEKMETER_BINS_H
#define SEEKMETER_BINS_H

#include "recorder.h"

#include "records.h"

/*
 * A program that began in a bin may still be adding to it for a moment after the bin is over. Longer than any
 * store takes to be seen by another CPU, so that a turn not seen odd by then was not taken in time.
 */
#define BIN_GUARD_NS 1000000ULL

/* True when every program that runs now, or ran before, has finished adding. False: try again later. */
bool bins_settled(const struct bin_turn *turns, int cpus);

#endif
