// SPDX-License-Identifier: BSD-2-Clause
/* Waiting for programs that are still adding to a time bin, and taking out what they added. */
#include "bins.h"

#include <bpf/bpf.h>
#include <errno.h>

/*
 * A program that began in a bin may still be adding to it for a moment after the bin is over. Longer than any
 * store takes to be seen by another CPU, so that a turn not seen odd by then was not taken in time.
 */
#define BIN_GUARD_NS 1000000ULL
/* A program takes about a microsecond; a CPU stolen by a hypervisor may keep it much longer. */
#define PATIENCE_NS  200000ULL

/* True when every program that runs now, or ran before, has finished adding. False: try again later. */
static bool bins_settled(const struct bin_turn *turns, int cpus)
{
	uint64_t deadline_ns = monotonic_ns() + PATIENCE_NS;

	for (int i = 0; i < cpus; i++) {
		uint64_t turn = __atomic_load_n(&turns[i].count, __ATOMIC_ACQUIRE);

		while ((turn & 1) && __atomic_load_n(&turns[i].count, __ATOMIC_ACQUIRE) == turn)
			if (monotonic_ns() > deadline_ns)
				return false;
		while (__atomic_load_n(&turns[i].inside, __ATOMIC_ACQUIRE))
			if (monotonic_ns() > deadline_ns)
				return false;
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return true;
}

void bins_drain(const struct bin_turn *turns, int cpus, volatile uint64_t *drained_to,
		uint64_t bin_ns, bool last, void (*drain_bin)(uint64_t bin))
{
	uint64_t now = monotonic_ns();
	uint64_t until = last ? now / bin_ns + 1 : (now - BIN_GUARD_NS) / bin_ns;

	for (uint64_t bin = *drained_to; bin < until; bin++) {
		if (!bins_settled(turns, cpus) && !last)
			return;
		drain_bin(bin);
		__atomic_store_n(drained_to, bin + 1, __ATOMIC_RELEASE);
	}
}

bool bins_take(int map_fd, uint64_t bin, void *keys, void *sums, uint32_t most,
	       void (*take_sums)(uint64_t bin, uint32_t count))
{
	uint32_t place = 0;
	int err = 0;

	for (bool first = true; !err; first = false) {
		uint32_t count = most;

		if (bpf_map_lookup_and_delete_batch(map_fd, first ? NULL : &place, &place, keys,
						    sums, &count, NULL))
			err = errno;
		if (err && err != ENOENT) /* ENOENT: that was all */
			return false;
		if (count)
			take_sums(bin, count);
	}
	return true;
}
