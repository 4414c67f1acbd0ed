/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Contexts of a CPU, and where to read them: see cpu_context.h. */
#ifndef SEEKMETER_CPU_RECORDS_H
#define SEEKMETER_CPU_RECORDS_H

enum cpu_context {
	CPU_CONTEXT_UNKNOWN, /* where the CPU's preempt_count is not found */
	CPU_CONTEXT_TASK,
	CPU_CONTEXT_SOFTIRQ,
	CPU_CONTEXT_HARDIRQ,
	CPU_CONTEXT_NMI,
} __attribute__((packed));

#define CPU_NOWHERE (~0U)

/* Offsets of per-CPU variables, CPU_NOWHERE if there is none, and what the count's bits mean. */
struct cpu_places {
	u32 runqueues_at;
	u32 preempt_count_at;
	u32 hardirq_bits; /* 0: contexts are not known */
	u32 nmi_bits;
};

#endif
