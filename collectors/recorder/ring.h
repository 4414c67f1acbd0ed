/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flight recorder (--ring): tables in segments, of which the newest are there (ring_store.h), and the windows around
 * firings of the triggers that are kept: the time KEEP before a firing, and AFTER.
 */
#ifndef SEEKMETER_RING_H
#define SEEKMETER_RING_H

#include <stdbool.h>
#include <stdint.h>

struct options;

/* All of these do nothing without --ring. */

/* Makes the directories; before any table is opened. 0; -1: the error is printed. */
int ring_open(struct options *options);
/* Everything is recorded from this time on. drain: empties the buffers of all collectors into their tables. */
void ring_begin(uint64_t ready_ns, void (*drain)(void));
/* Cuts a segment, keeps a window, forgets what is old, each when due. False: the last window is kept, the watch is over. */
bool ring_tick(uint64_t now_ns);
/* All tables are closed; everything until then is in them. A window whose AFTER is not over is kept as it is. */
void ring_end(uint64_t until_ns);

#endif
