/* SPDX-License-Identifier: BSD-2-Clause */
/* The struct in a slab cache's objects, guessed from the cache's name. */
#ifndef SEEKMETER_LOCK_SLABS_H
#define SEEKMETER_LOCK_SLABS_H

#include <stdbool.h>
#include <stdint.h>

#include "member.h"
#include "common/records.h"

/* Reads the list of merged caches; call types_load() first. */
void slabs_load(void);
void slabs_unload(void);
/* Is it a cache of kmalloc(), shared by all code? */
bool slab_is_kmalloc(const char *slab);
/* Is a cache named after this struct? Then the struct is not allocated by kmalloc(). */
bool slab_has_own(struct type type);
/* The lock, by the cache's name. False: no struct fits, or several do. */
bool slab_lock(const struct lock_object *object, int kind, struct lock_member *found);
/* Fills the map inode_caches (bpf/locks/lock_object.h): by cache, the offset of struct inode in its objects. */
void slabs_note_inodes(int map_fd);

#endif
