/* SPDX-License-Identifier: BSD-2-Clause */
/* Which struct lies in a slab cache's objects. */
#ifndef SEEKMETER_LOCK_SLABS_H
#define SEEKMETER_LOCK_SLABS_H

#include <stdbool.h>
#include <stdint.h>

#include "member.h"
#include "common/records.h"

/* Reads which caches are merged; types_load() comes first. */
void slabs_load(void);
void slabs_unload(void);
/* Whether the cache is one of those any code takes its memory from. */
bool slab_is_kmalloc(const char *slab);
/* Whether a cache is called after this struct: it does not lie in one of kmalloc()'s then. */
bool slab_has_own(struct type type);
/* By the cache's name. False: it tells no struct that has such a lock there, or several. */
bool slab_lock(const struct lock_object *object, int kind, struct lock_member *found);
/* Fills the map from the names of caches of inodes to where struct inode is in their objects (bpf/locks/lock_object.h). */
void slabs_note_inodes(int map_fd);

#endif
