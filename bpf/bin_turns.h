/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * How programs that add to time bins and the recorder that empties them stay out of each other's way.
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

struct bin_turn {
	u64 count;
	u64 inside;
	u64 pad[6]; /* a cache line of its own */
};

#endif
