/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Settings, rings, counts and the flag of a window that is given up; part of sched.bpf.c. */
#ifndef SEEKMETER_SCHED_STATE_H
#define SEEKMETER_SCHED_STATE_H

/* Set before loading. */
const volatile u64 ring_mask, wake_ring_mask; /* records of a ring, minus one */
/*
 * prev_state is an argument of sched_switch since Linux kernel commit 9c2136be0878 ("sched/tracing: Append prev_state to
 * tp args instead") (in v5.18 and stable kernels).
 */
const volatile bool have_prev_state;

/*
 * 0: switches and wakes are recorded. Else no program records any: the recording has not begun (1), or the rest of a
 * window is given up, since this time. Read by each program, so nothing that changes often is near it.
 */
struct {
	u64 pad_before[8];
	u64 since_ns;
	u64 pad_behind[7];
} given_up = { .since_ns = 1 };

/* Counts of each CPU. No atomic add: interrupts are off in all programs that count. */
struct sched_counts counts[BIN_CPUS];

RINGS(switch_rings, struct switch_record);
RINGS(wake_rings, struct wake_record);

static __always_inline struct sched_counts *my_counts(void)
{
	return &counts[bpf_get_smp_processor_id() & (BIN_CPUS - 1)];
}

/* No event may be missing where others are recorded: without room for one, all CPUs stop. */
static __always_inline void give_up(u64 now_ns)
{
	my_counts()->full++;
	__sync_val_compare_and_swap(&given_up.since_ns, 0, now_ns);
}

#endif
