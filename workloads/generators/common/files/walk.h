// SPDX-License-Identifier: BSD-2-Clause
/*
 * Visits everything under a directory in readdir order: of each directory first its files, then its
 * subdirectories, both in the order in which the file system lists them.
 */
#ifndef GENERATORS_WALK_H
#define GENERATORS_WALK_H

#include <stdint.h>

/* NAME is in the directory open as DIR_FD; PATH is relative to the top of the walk. */
typedef void walk_visit(void *context, int dir_fd, const char *name, const char *path);

struct walk {
	walk_visit
		*enter_dir; /* called before the directory's entries; each function may be NULL */
	walk_visit *file;   /* called for each entry that is not a directory */
	walk_visit *leave_dir; /* called after the directory's entries; may remove the directory */
	void *context;
};

/* Walks the tree below TOP, a name in DIR_FD. TOP itself is not visited. An error ends the program. */
void walk_tree(const struct walk *walk, int dir_fd, const char *top);

/*
 * Ends the program unless LIVING files are below TOP. A caller that has verified each file by name knows then that no
 * other file exists.
 */
void walk_expect(int dir_fd, const char *top, uint64_t living);

#endif
