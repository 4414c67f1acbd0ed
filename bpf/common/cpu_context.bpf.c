// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Which bits of preempt_count say "in a hard interrupt": they are set in each sample that a CPU's timer takes. Kernels
 * differ in these bits. The recorder runs this for some milliseconds at its start.
 */
#include "common/cpu_context.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

u32 bits_always_set = ~0U;
u64 samples;

SEC("perf_event")
int sample(void *ctx)
{
	u32 count;

	if (!read_preempt_count(&count))
		return 0;
	bits_always_set &= count;
	samples++;
	return 0;
}
