/* SPDX-License-Identifier: BSD-2-Clause */
/* The lock at an offset of a struct: its class and its member path. */
#ifndef SEEKMETER_LOCK_MEMBERS_H
#define SEEKMETER_LOCK_MEMBERS_H

#include "btf_type.h"

struct lock_member {
	char name[240]; /* the lock's class: inode.i_rwsem */
	struct type outer;
	char type[64];	  /* the outermost struct: ext4_inode_info */
	char member[160]; /* from there: vfs_inode.i_rwsem */
};

/* The lock of this kind (enum lock_kind) that begins at the offset. False: there is none. */
bool member_lock_at(struct type outer, uint32_t offset, int kind, struct lock_member *member);
/* Is the type itself a lock of this kind? */
bool member_is_lock(struct type type, int kind);

#endif
