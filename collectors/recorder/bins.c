// SPDX-License-Identifier: BSD-2-Clause
/* Waiting for programs that are still adding to a time bin. */
#include "bins.h"

/* A program takes about a microsecond; a CPU stolen by a hypervisor may keep it much longer. */
#define PATIENCE_NS 200000ULL

bool bins_settled(const struct bin_turn *turns, int cpus)
{
	uint64_t deadline_ns = monotonic_ns() + PATIENCE_NS;

	for (int i = 0; i < cpus; i++) {
		uint64_t turn = __atomic_load_n(&turns[i].count, __ATOMIC_ACQUIRE);

		while ((turn & 1) && __atomic_load_n(&turns[i].count, __ATOMIC_ACQUIRE) == turn)
			if (monotonic_ns() > deadline_ns)
				return false;
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return true;
}
