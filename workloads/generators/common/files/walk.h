// SPDX-License-Identifier: BSD-2-Clause
/*
 * Visits everything under a directory in readdir order: of each directory first its files, then its
 * subdirectories, both in the order in which the file system lists them.
 */
#ifndef GENERATORS_WALK_H
#define GENERATORS_WALK_H

#include <stdint.h>

/* NAME is in the directory open as DIR_FD; PATH is its whole name below the walk's start. */
typedef void walk_visit(void *context, int dir_fd, const char *name, const char *path);

struct walk {
	walk_visit *enter_dir; /* before what is in it; NULL: not wanted, as below */
	walk_visit *file;      /* anything that is not a directory */
	walk_visit *leave_dir; /* after what is in it; may remove it */
	void *context;
};

/* Walk below TOP (itself not visited), a name in DIR_FD. An error ends the program. */
void walk_tree(const struct walk *walk, int dir_fd, const char *top);

/*
 * As many files must be below TOP as LIVING says, else it ends the program. For those that found every file of theirs by
 * its name before: then there are no others.
 */
void walk_expect(int dir_fd, const char *top, uint64_t living);

#endif
