/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A timer on each CPU that runs a BPF program SAMPLE_HZ times a second (bpf/common/cpu_samples.h).
 *
 * A CPU that goes offline loses its timer; it gets a new one when it is back (checked once a second). The kernel counts
 * the time each timer ran, which gives the number of missing samples: a timer late by more than its period (idle CPU,
 * interrupts off, a virtual CPU that is not run) leaves out the samples in between.
 */
#ifndef SEEKMETER_CPU_TIMERS_H
#define SEEKMETER_CPU_TIMERS_H

#include <stdint.h>

struct bpf_program;
struct collector_state;
struct cpu_timer;

struct cpu_timers {
	const struct bpf_program *program;
	struct collector_state *state; /* gets the notes */
	int cpus;
	struct cpu_timer *timers; /* by CPU */
	uint64_t ran_ns;	  /* of all timers */
	uint64_t next_check_ns;
};

/* 0, or the errno of the failed call; cpu_timers_stop() or cpu_timers_free() then stops those that run. */
int cpu_timers_start(struct cpu_timers *timers, const struct bpf_program *program, int cpus,
		     struct collector_state *state);
/* Starts the timers of CPUs that are online again. To be called every DRAIN_MS. */
void cpu_timers_follow(struct cpu_timers *timers);
void cpu_timers_stop(struct cpu_timers *timers);
void cpu_timers_free(struct cpu_timers *timers);
/* How many more samples there should have been. */
uint64_t cpu_timers_left_out(const struct cpu_timers *timers, uint64_t samples);

#endif
