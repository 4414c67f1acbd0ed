/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the kernel spins for a lock: the text of these functions, for bpf/common/cpu_samples.h. */
#ifndef SEEKMETER_SPIN_RANGES_H
#define SEEKMETER_SPIN_RANGES_H

#include <stdint.h>

#include "common/records.h"

struct collector_state;

/* Fills in the ranges, SPIN_RANGES at most; returns how many. 0: the kernel shows no addresses (kptr_restrict). */
uint32_t spin_ranges_find(struct spin_range *ranges, struct collector_state *state);

#endif
