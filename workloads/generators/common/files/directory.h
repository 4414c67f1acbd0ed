// SPDX-License-Identifier: BSD-2-Clause
/* All names of one directory, in the order in which readdir gives them. */
#ifndef GENERATORS_LISTING_H
#define GENERATORS_LISTING_H

#include <stddef.h>
#include <stdint.h>

struct listed {
	uint64_t inode;
	size_t name;	    /* where in the names */
	unsigned char type; /* DT_REG, DT_DIR, ... of dirent.h */
};

struct listing {
	struct listed *entries;
	size_t count;
	size_t room;
	char *names;
	size_t names_bytes;
	size_t names_room;
};

/* Of the directory open as DIR_FD, from its beginning; "." and ".." are left out. PATH is for messages. */
void listing_read(struct listing *listing, int dir_fd, const char *path);
const char *listing_name(const struct listing *listing, size_t entry);
void listing_sort_by_inode(struct listing *listing);
void listing_free(struct listing *listing);

#endif
