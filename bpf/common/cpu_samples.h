/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * CPU samples: the registers of what was interrupted, and whether it spins for a lock. The recorder starts the timers
 * (collectors/recorder/cpu_timers.h) and fills in the ranges (collectors/locks/spin_ranges.h).
 */
#ifndef SEEKMETER_CPU_SAMPLES_H
#define SEEKMETER_CPU_SAMPLES_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "common/records.h"

#define CALLERS 4 /* frames read to find the caller of a helper */

/* struct bpf_perf_event_data begins with the registers; their layout is the architecture's ABI. */
#if defined(__TARGET_ARCH_x86)
#define REGISTER_IP 16
#define REGISTER_SP 19
#elif defined(__TARGET_ARCH_arm64)
#define REGISTER_IP 32
#define REGISTER_SP 31
#else
#error "add this architecture: REGISTER_IP and REGISTER_SP are indices of struct pt_regs in asm/ptrace.h"
#endif

struct sampled {
	u64 registers[REGISTER_SP > REGISTER_IP ? REGISTER_SP + 1 : REGISTER_IP + 1];
};

/* Set before loading: where the kernel spins. */
const volatile struct spin_range spin_ranges[SPIN_RANGES];
const volatile u32 spin_range_count;

static __noinline u64 range_kind(u64 ip)
{
	for (u32 i = 0; i < SPIN_RANGES && i < spin_range_count; i++)
		if (ip >= spin_ranges[i].begin && ip < spin_ranges[i].end)
			return spin_ranges[i].kind;
	return SPIN_NOT;
}

/* The kind of the first function on the stack that is no helper. */
static __always_inline u64 caller_kind(struct sampled *ctx)
{
	u64 frames[CALLERS] = {};

	if (bpf_get_stack(ctx, frames, sizeof(frames), 0) < 0)
		return SPIN_NOT;
	for (int i = 1; i < CALLERS; i++) {
		/* A call at a function's end returns behind the function. */
		u64 kind = range_kind(frames[i] - 1);

		if (kind != SPIN_HELPER)
			return kind;
	}
	return SPIN_NOT;
}

/* The sample hit user mode. */
static __always_inline bool is_user_mode(const struct sampled *ctx)
{
	return !(ctx->registers[REGISTER_IP] >> 63);
}

#endif
