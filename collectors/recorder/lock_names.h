/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.jsonl: every lock that was waited for, once, with what names can be had. */
#ifndef SEEKMETER_LOCK_NAMES_H
#define SEEKMETER_LOCK_NAMES_H

#include "recorder.h"

/* slabs_fd: the map from lock address to slab name. 0, or -1 with errno. */
int lock_names_open(const struct options *options, int slabs_fd);
/* kind: enum lock_kind. False: it could not be written. */
bool lock_names_note(uint64_t lock, int kind);
void lock_names_close(void);

#endif
