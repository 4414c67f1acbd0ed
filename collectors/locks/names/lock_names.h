/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.jsonl: every lock that was waited for, with what names can be had. */
#ifndef SEEKMETER_LOCK_NAMES_H
#define SEEKMETER_LOCK_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/records.h"

struct bpf_object;
struct options;

/* Whether the kernel's BTF has this function. */
bool kernel_has_function(const char *name);
/* How this kernel tells what a lock lies in: for rodata->object_lookups of an object that includes bpf/locks/lock_object.h. */
struct lock_object_lookups lock_names_lookups(void);
/*
 * Several sources may have it open at once, sharing the maps `objects` and `inode_caches` of bpf/locks/lock_object.h:
 * the first opens, the last one's close closes. share: before the object is loaded. open: when it is loaded,
 * before it is attached. 0, or -1 with errno.
 */
int lock_names_share(struct bpf_object *object);
int lock_names_open(const struct options *options, struct bpf_object *object);
/*
 * kind: enum lock_kind. frames: return addresses of a call path that waited for it or took it, innermost first, 0 after
 * the last; NULL: not known. False: it could not be written.
 */
bool lock_names_note(uint64_t lock, int kind, const uint64_t *frames);
void lock_names_close(void);

#endif
