// SPDX-License-Identifier: BSD-2-Clause
/* One directory: made and opened, or its entries, in readdir order. */
#ifndef GENERATORS_DIRECTORY_H
#define GENERATORS_DIRECTORY_H

#include <stddef.h>
#include <stdint.h>

struct directory_entry {
	uint64_t inode;
	size_t name;	    /* offset in `names` */
	unsigned char type; /* DT_REG, DT_DIR, ... of dirent.h */
};

struct directory {
	struct directory_entry *entries;
	size_t count;
	size_t room;
	char *names;
	size_t names_bytes;
	size_t names_room;
};

/* Makes a directory in the one open as at, mode 0755, and opens it. A failure ends the program. */
int directory_make(int at, const char *name);

/* Reads all entries but "." and ".." of the directory open as dir_fd. path is for messages. */
void directory_read(struct directory *listing, int dir_fd, const char *path);
const char *directory_name(const struct directory *listing, size_t entry);
void directory_sort_by_inode(struct directory *listing);
void directory_free(struct directory *listing);

#endif
