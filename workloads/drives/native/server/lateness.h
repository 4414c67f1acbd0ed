/* SPDX-License-Identifier: BSD-2-Clause */
/* How late replies were against the model: a histogram of fixed size, with bins of at most 3 % of their value. */
#ifndef SEEKMETER_DRIVE_LATENESS_H
#define SEEKMETER_DRIVE_LATENESS_H

#include <stdint.h>

#define LATENESS_BINS (64 * 32)

struct lateness {
	uint64_t bins[LATENESS_BINS];
	uint64_t replies;
	uint64_t over_500us;
	int64_t sum_ns; /* of late replies */
	int64_t most_ns;
	int64_t earliest_ns; /* at most 0: the reply that was earliest */
};

/* Early replies (late_ns < 0) count as punctual. */
void lateness_add(struct lateness *lateness, int64_t late_ns);

/* The middle of the bin that this share (0 to 1) of the replies does not exceed. */
int64_t lateness_share_ns(const struct lateness *lateness, double share);

#endif
