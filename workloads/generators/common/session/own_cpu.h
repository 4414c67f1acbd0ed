// SPDX-License-Identifier: BSD-2-Clause
/*
 * How busy the generator itself was while it measured: where that is much, the figures are the generator's and not
 * the file system's.
 *
 * Own CPU time is what this process, its threads, and the processes that it started and waited for spent outside the
 * kernel. Its share is of the CPU time that they could have had: the phase's wall time for each of them, or for each
 * CPU that they may be on where these are fewer. The kernel
 * divides CPU time by what it finds at its ticks, so that a phase of less than a second says little.
 */
#ifndef GENERATORS_OWN_CPU_H
#define GENERATORS_OWN_CPU_H

/* A phase that is measured begins; what was done since the last one does not count. */
void own_cpu_begin(void);

/*
 * That phase is over; THREADS threads or processes worked in it. Returns their own CPU time's share in percent.
 * Processes must have been waited for.
 */
double own_cpu_end(unsigned long threads);

/* A line, and the figures own_user_cpu_s and own_user_cpu_pct: of all phases together. */
void own_cpu_report(void);

#endif
