/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What makes a CPU wake a task; part of sched.bpf.c.
 *
 * In an interrupt the current task has no part in it. The causes told apart: a completed request (common/completion.h), an
 * expired timer, network packets. The kernel keeps the timer that it runs, and whether it takes in packets, in variables
 * of the CPU; a few reads here cost less than tracepoints at each timer and softirq.
 */
#ifndef SEEKMETER_SCHED_WAKE_H
#define SEEKMETER_SCHED_WAKE_H

#include "common/completion.h"
#include "common/cpu_context.h"
#include "common/kworkers.h"
#include "sched_state.h"

#define TIMER_BASES 3 /* kernel/time/timer.c: the most of any kernel (NR_BASES) */
#define CLOCKS	    8 /* linux/hrtimer.h: HRTIMER_MAX_CLOCK_BASES; from 4 on those of softirqs */

/* Set before loading: offsets of per-CPU variables, CPU_NOWHERE if the kernel has none. */
const volatile u32 hrtimer_bases_at, timer_bases_at, softnet_data_at;
const volatile u32 timer_base_bytes, timer_base_count;
const volatile u32 timer_migration_at, cpus;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* linux/hrtimer.h, linux/hrtimer_defs.h */
struct hrtimer_clock_base {
	void *running; /* the timer whose function runs; NULL: none */
};

struct hrtimer_cpu_base {
	struct hrtimer_clock_base clock_base[CLOCKS];
};

/* kernel/time/timer.c */
struct timer_base {
	void *running_timer; /* as above */
};

/*
 * kernel/time/timer_migration.h, since Linux kernel commit 7ee988770326 ("timers: Implement the hierarchical pull model")
 * (in v6.9)
 */
struct tmigr_cpu {
	bool remote; /* another CPU runs this one's timers, as this one is idle */
};

/*
 * linux/netdevice.h, since Linux kernel commit 8b43fd3d1d7d ("net: optimize ____napi_schedule() to avoid extra
 * NET_RX_SOFTIRQ") (in v6.4)
 */
struct softnet_data {
	bool in_net_rx_action;
};

#pragma clang attribute pop

static __noinline bool hrtimer_runs(bool soft)
{
	struct hrtimer_cpu_base *base = (void *)cpu_variable(hrtimer_bases_at);

	if (!base || !bpf_core_field_exists(base->clock_base[0].running))
		return false;
	if (soft)
		return BPF_CORE_READ(base, clock_base[4].running) ||
		       BPF_CORE_READ(base, clock_base[5].running) ||
		       BPF_CORE_READ(base, clock_base[6].running) ||
		       BPF_CORE_READ(base, clock_base[7].running);
	return BPF_CORE_READ(base, clock_base[0].running) ||
	       BPF_CORE_READ(base, clock_base[1].running) ||
	       BPF_CORE_READ(base, clock_base[2].running) ||
	       BPF_CORE_READ(base, clock_base[3].running);
}

static __always_inline bool timer_runs_in(u64 bases)
{
	for (u32 i = 0; i < TIMER_BASES && i < timer_base_count; i++) {
		struct timer_base *base = (void *)(bases + i * timer_base_bytes);

		if (BPF_CORE_READ(base, running_timer))
			return true;
	}
	return false;
}

static __noinline bool wheel_timer_runs(void)
{
	u64 bases = cpu_variable(timer_bases_at);

	return bases && timer_runs_in(bases);
}

/* A timer of an idle CPU that another one runs: most likely this one, as it wakes a task in a softirq of no other cause. */
static __noinline bool idle_cpus_timer_runs(void)
{
	if (timer_bases_at == CPU_NOWHERE || timer_migration_at == CPU_NOWHERE)
		return false;
	for (u32 cpu = 0; cpu < BIN_CPUS && cpu < cpus; cpu++) {
		u64 begin = cpu_begins[cpu];
		struct tmigr_cpu *migration = (void *)(begin + timer_migration_at);

		if (begin && BPF_CORE_READ(migration, remote) &&
		    timer_runs_in(begin + timer_bases_at))
			return true;
	}
	return false;
}

static __noinline bool takes_in_packets(void)
{
	struct softnet_data *data = (void *)cpu_variable(softnet_data_at);

	if (!data || !bpf_core_field_exists(data->in_net_rx_action))
		return false;
	return BPF_CORE_READ(data, in_net_rx_action);
}

/* The cause of a wake in an interrupt. */
static __always_inline void note_interrupt(struct wake_record *wake, u32 current_pid)
{
	struct block_completion *slot = completion_slot();
	bool soft = wake->context == CPU_CONTEXT_SOFTIRQ;
	bool has_ended = slot && slot->dev;

	wake->sure = has_ended && slot->context == wake->context && slot->thread == current_pid;
	if (!wake->sure) {
		if (hrtimer_runs(soft) || (soft && wheel_timer_runs()))
			wake->cause = WAKE_CAUSE_TIMER;
		else if (soft && takes_in_packets())
			wake->cause = WAKE_CAUSE_NET;
		else if (soft && !has_ended && idle_cpus_timer_runs())
			wake->cause = WAKE_CAUSE_TIMER;
		if (wake->cause || !has_ended)
			return;
	}
	wake->cause = WAKE_CAUSE_REQUEST;
	wake->dev = slot->dev;
	wake->sector = slot->sector;
}

#endif
