// SPDX-License-Identifier: BSD-2-Clause
/*
 * Cold caches between two phases: the session, whom $SEEKMETER_REMOUNT's socket belongs to, unmounts the file system
 * under test and mounts it again with the same options, as a phase "remount" of its own.
 */
#ifndef GENERATORS_REMOUNT_H
#define GENERATORS_REMOUNT_H

#include <stdbool.h>

/*
 * The caller, and all processes it started, hold no file or directory open there; the working directory is seen to
 * here. Returns NULL if it was done, else why there are no cold caches: nobody to ask, or the file system is a
 * user's, which is never unmounted. An error ends the program.
 */
const char *remount(void);

#endif
