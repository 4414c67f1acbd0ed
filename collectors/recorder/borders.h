/* SPDX-License-Identifier: BSD-2-Clause */
/* Cuts of the time bins where a phase begins or ends, on request; the protocol is in borders.c. */
#ifndef SEEKMETER_BORDERS_H
#define SEEKMETER_BORDERS_H

#include <stdint.h>

struct options;

/* Listens at options->borders, in a thread of its own. -1: the error is printed. */
int borders_open(const struct options *options);
void borders_close(void);

/* How many requested cuts were made, and how many could not be. */
uint64_t borders_made(void);
uint64_t borders_refused(void);

#endif
