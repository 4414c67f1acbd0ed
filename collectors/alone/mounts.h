/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * File systems mounted from the watched device, in any mount namespace: calls on their files are the application's.
 *
 * Included are those on its partitions, on volumes made of it, and overlays whose upper directory lies there, as
 * collectors/host/mounted_from.py finds them.
 */
#ifndef SEEKMETER_ALONE_MOUNTS_H
#define SEEKMETER_ALONE_MOUNTS_H

#include "alone/devices.h"

/* One line of mountinfo (proc(5)). */
struct mount {
	int id;
	char dev[32]; /* of the file system: btrfs has a number of its own, not the disk's */
	char kind[32];
	char root[PATH_MOST]; /* the part of the file system that is mounted */
	char target[PATH_MOST];
	char source[PATH_MOST];
	char super_options[PATH_MOST * 2];
};

struct mounted {
	struct mount mount;
	int device; /* index of the mounted device; of an overlay, of the one below its upper directory */
	bool is_overlay, is_foreign; /* foreign: in another mount namespace than ours */
};

struct mounted_list {
	struct mounted *at;
	int count, room;
};

/* Parses a line; false: it is none. */
bool mount_parse(const char *line, struct mount *mount);
/* Calls `take` with each mount of a mountinfo file; false: it can't be read. */
bool mounts_read(const char *path, void (*take)(void *about, const struct mount *mount),
		 void *about);
/* Finds each file system once, by its best mount point; overlays come last. watched: index of the device. */
void mounted_find(const struct devices *all, int watched, struct mounted_list *found);
void mounted_free(struct mounted_list *found);

#endif
