/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The budget of the sched collector, by windows of a second.
 *
 * If a CPU's switches and wakes exceed EVENTS_OF_CPU in a window, or all CPUs' EVENTS_IN_ALL, the rest of the window is given
 * up on all CPUs: no event is recorded, all are counted. A window is given up from its start if, by that count, it would
 * exceed the budget too. A full ring gives up the rest of its window as well.
 */
#ifndef SEEKMETER_SCHED_WINDOWS_H
#define SEEKMETER_SCHED_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

struct collector_state;
struct options;
struct rings;
struct sched_counts;

/* 36 bytes an event on average: 4.3 MB a second in all. */
#define EVENTS_OF_CPU 60000
#define EVENTS_IN_ALL 120000

struct windows {
	const struct sched_counts *counts; /* by CPU, shared with the programs */
	volatile uint64_t *given_up_ns;	   /* likewise: given_up.since_ns */
	int cpus;
	const struct rings *switches, *wakes;
	struct collector_state *state;
};

/* Creates sched_window.jsonl; 0, or -1 with errno. */
int windows_open(const struct windows *windows, const struct options *options);
/* The first window begins; the programs record from now on. */
void windows_begin(void);
/* Before the rings are emptied: gives up the window, or begins the next one. `last`: the recording is over. */
void windows_tick(bool last);
/* False: this moment was given up, and its record is not kept. */
bool windows_keep(uint64_t t_ns);
void windows_close(void);

#endif
