/* SPDX-License-Identifier: BSD-2-Clause */
/* The clock of all tables (CLOCK_MONOTONIC), and what this machine's CPUs allow. */
#ifndef SEEKMETER_CLOCK_H
#define SEEKMETER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define NS_PER_MS  1000000ULL
#define NS_PER_SEC 1000000000ULL

/* CLOCK_MONOTONIC: the time of every row of every table. */
uint64_t monotonic_ns(void);
/* CPU time that the calling thread has used. */
uint64_t thread_cpu_ns(void);

/*
 * True where CPUs are emulated (SEEKMETER_EMULATED_CPUS=1, set by a session for its guest). Turning a busy tracepoint
 * or static key on or off patches code that all CPUs are running. QEMU's emulated CPUs (7.2, two threads) sometimes
 * never leave the breakpoint that the patching sets, and hang. With emulated CPUs such hooks are not attached.
 */
bool emulated_cpus(void);

#endif
