/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Time bins that programs add to and the recorder empties: which one a moment is in, and how the two stay out of each
 * other's way.
 *
 * A bin begins every bin_ns, and at each cut too: so no bin reaches over the border of a phase, and what is summed
 * up in bins can be told by phase. Bins are numbered in order of time. A cut is announced before its time
 * (collectors/recorder/time_bins.c), so that every CPU knows of it by then.
 *
 * Bin b lives in slot b % slots. A program adds only to bins in [drained_to, drained_to + slots), and makes its
 * CPU's turn odd before it reads the clock and even when it has added. The recorder empties bin b once b is
 * over and every CPU's turn has been even, or has moved on, since then: nobody can still add to it.
 *
 * Programs that another one can preempt on their CPU would make odd and even meaningless: these count themselves in
 * and out (inside), and the recorder waits until it finds nobody in.
 */
#ifndef SEEKMETER_BIN_TURNS_H
#define SEEKMETER_BIN_TURNS_H

#define BIN_CPUS 1024
#define BIN_CUTS 8 /* a power of two */
#define BIN_PENDING \
	4 /* cuts announced and not come, at most: the others' places are read by nobody then */

struct bin_turn {
	u64 count;
	u64 inside;
	u64 pad[6]; /* a cache line of its own */
};

struct bin_cuts {
	u64 count; /* announced so far */
	u64 at_ns
		[BIN_CUTS]; /* the last ones, in order of time: the i-th, from 0, is at i % BIN_CUTS */
};

/* The number of the bin that this moment is in. */
static inline __attribute__((always_inline)) u64 bin_of(const volatile struct bin_cuts *cuts,
							u64 bin_ns, u64 now_ns)
{
	u64 count = cuts->count, bin = now_ns / bin_ns + count;

	for (u32 i = 1; i <= BIN_PENDING; i++) {
		if (i > count || cuts->at_ns[(count - i) & (BIN_CUTS - 1)] <= now_ns)
			break;
		bin--;
	}
	return bin;
}

#endif
