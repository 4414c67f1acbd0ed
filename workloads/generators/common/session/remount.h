// SPDX-License-Identifier: BSD-2-Clause
/*
 * Cold caches between two phases: the session, over the socket $SEEKMETER_REMOUNT, unmounts the file system under test
 * and mounts it again with the same options, as a phase "remount".
 */
#ifndef GENERATORS_REMOUNT_H
#define GENERATORS_REMOUNT_H

#include <stdbool.h>

/*
 * Remounts the file system under test. The caller and its child processes must have no file open there; the working
 * directory may be there. Returns NULL, or the reason why the caches are not cold: there is no session, or the user
 * named the file system, which is then never unmounted. An error ends the program.
 */
const char *remount(void);

#endif
