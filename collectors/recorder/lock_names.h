/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.jsonl: every lock that was waited for, once, with what names can be had. */
#ifndef SEEKMETER_LOCK_NAMES_H
#define SEEKMETER_LOCK_NAMES_H

#include "recorder.h"

/*
 * Several sources may have it open at once, sharing one map: the first opens, the last one's close closes.
 * objects_fd: the map from a lock's address to struct lock_object. 0, or -1 with errno.
 */
int lock_names_open(const struct options *options, int objects_fd);
/* The map it was opened with, for the next source to share; -1: nobody has opened it. */
int lock_names_objects(void);
/*
 * kind: enum lock_kind. frames: return addresses of a call path that waited for it or took it, innermost first, 0 after
 * the last; NULL: not known. False: it could not be written.
 */
bool lock_names_note(uint64_t lock, int kind, const uint64_t *frames);
void lock_names_close(void);

#endif
