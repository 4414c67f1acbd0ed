/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.jsonl: every lock that was waited for, with its kind, name and inode. */
#ifndef SEEKMETER_LOCK_NAMES_H
#define SEEKMETER_LOCK_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/records.h"

struct bpf_object;
struct options;

/* Does the kernel's BTF have this function? */
bool kernel_has_function(const char *name);
/* How to look up the object of a lock on this kernel: for rodata->object_lookups (bpf/locks/lock_object.h). */
struct lock_object_lookups lock_names_lookups(void);
/*
 * Several collectors may have lock.jsonl open and share the maps `objects` and `inode_caches` (bpf/locks/lock_object.h):
 * the first open creates it, the last close ends it. Call share before the BPF object is loaded, open when the object
 * is loaded and before it is attached. 0, or -1 with errno set.
 */
int lock_names_share(struct bpf_object *object);
int lock_names_open(const struct options *options, struct bpf_object *object);
/*
 * Notes a lock, and writes its line if there is something new. kind: enum lock_kind. frames: return addresses of a call
 * path that waited for the lock or took it, innermost first, 0 after the last; NULL: not known. False: the line could
 * not be written.
 */
bool lock_names_note(uint64_t lock, int kind, const uint64_t *frames);
void lock_names_close(void);

#endif
