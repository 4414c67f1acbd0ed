/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Time bins: programs add to them, the recorder empties them (collectors/recorder/time_bins.c), without a lock.
 *
 * A bin begins every bin_ns, and at each cut: no bin reaches over the border of a phase, so sums in bins can be
 * split by phase. Bins are numbered in order of time. A cut is announced before its time, early enough for every
 * CPU to see it.
 *
 * Bin b lives in slot b % slots. A program adds only to bins in [drained_to, drained_to + slots). It makes its
 * CPU's epoch odd before it reads the clock, and even when it has added. The recorder empties bin b once b is over
 * and every CPU's epoch has been even, or has moved on, since then: no program can still add to b.
 *
 * Programs that can preempt each other on a CPU would make odd and even meaningless. These count themselves in and
 * out (inside), and the recorder waits until the count is 0.
 */
#ifndef SEEKMETER_BIN_EPOCH_H
#define SEEKMETER_BIN_EPOCH_H

#define BIN_CPUS    1024
#define BIN_CUTS    8 /* the newest cuts a program knows; a power of two */
/* Most cuts announced ahead of their time; bin_of() reads only these. */
#define BIN_PENDING 4

/* One CPU's mark that a program adds to a bin; in a cache line of its own. */
struct bin_epoch {
	u64 count;
	u64 inside;
	u64 pad[6];
};

struct bin_cuts {
	u64 count; /* cuts announced so far */
	u64 at_ns
		[BIN_CUTS]; /* the newest ones, in order of time: cut i, from 0, is at i % BIN_CUTS */
};

/* The number of the bin that contains now_ns. */
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
