// SPDX-License-Identifier: BSD-2-Clause
/*
 * CPU time of the generator itself in the measured phases. If its share is large, the results show the generator's
 * speed and not the file system's.
 *
 * Own CPU time: user time of this process, its threads, and the child processes it has waited for. Its share is of the
 * possible CPU time: wall time of the phase, times the number of threads or of allowed CPUs, whichever is less. The
 * kernel accounts user time at ticks, so the share of a phase below a second is not precise.
 */
#ifndef GENERATORS_OWN_CPU_H
#define GENERATORS_OWN_CPU_H

/* Begins a measured phase. CPU time since the last measured phase does not count. */
void own_cpu_begin(void);

/*
 * Ends the phase, in which THREADS threads or processes worked. Returns the share of own CPU time in percent. Child
 * processes must have been waited for.
 */
double own_cpu_end(unsigned long threads);

/* Prints a line and writes the results own_user_cpu_s and own_user_cpu_pct, of all measured phases together. */
void own_cpu_report(void);

#endif
