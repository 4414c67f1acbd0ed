/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The recorder alone, without a session: --dev NAME --facts [--secs N] [--max-bytes N] --out DIR.
 *
 * It finds the disks below the device, the volumes on it and the file systems mounted from it, as `make watch` does,
 * records until the time is over, ^C, or the limit, and leaves in DIR what `make import` needs: alone.json, the tables
 * in recorder/, and copies of /proc/self/mountinfo and /proc/diskstats. Nothing of the machine is changed.
 */
#ifndef SEEKMETER_ALONE_H
#define SEEKMETER_ALONE_H

#include <stdbool.h>
#include <stdint.h>

struct options;

/*
 * Finds the devices and file systems for the options, makes DIR, and opens DIR/recorder for the tables. 0; or the exit
 * status: the error is printed.
 */
int alone_open(struct options *options);
/* Recording has begun: reads the counters, and writes alone.json. */
void alone_begin(const struct options *options, uint64_t ready_ns);
/* Called at each drain: prints progress. False: the time is over, or the limit is met. */
bool alone_goes_on(const struct options *options, uint64_t now_ns);
/* The recording is about to end: reads the counters once more. */
void alone_before_end(void);
/* It has ended: writes alone.json, and says what to do next. any_on: something was recorded. */
void alone_end(const struct options *options, uint64_t until_ns, bool any_on);

#endif
