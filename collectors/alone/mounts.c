// SPDX-License-Identifier: BSD-2-Clause
/* File systems mounted from the watched device; see mounts.h. */
#include "mounts.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MOST_VIEWS 4096 /* mount namespaces with their roots */

/* Copies a field with its \040-style escapes resolved; cut where it does not fit. */
static void unescape(char *to, size_t room, const char *from)
{
	size_t bytes = 0;

	while (*from && bytes < room - 1) {
		if (from[0] == '\\' && isdigit(from[1]) && isdigit(from[2]) && isdigit(from[3])) {
			to[bytes++] = (from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0');
			from += 4;
		} else {
			to[bytes++] = *from++;
		}
	}
	to[bytes] = 0;
}

bool mount_parse(const char *line, struct mount *mount)
{
	char *copy = strdup(line), *rest = copy, *fields[6], *after[3];
	char *tail = copy ? strstr(copy, " - ") : NULL;
	bool whole = tail != NULL;

	memset(mount, 0, sizeof(*mount));
	if (whole) {
		*tail = 0;
		tail += 3;
		tail[strcspn(tail, "\n")] = 0;
	}
	for (int i = 0; whole && i < 6; i++)
		whole = (fields[i] = strsep(&rest, " ")) != NULL;
	for (int i = 0; whole && i < 3; i++)
		whole = (after[i] = strsep(&tail, " ")) != NULL;
	if (whole) {
		mount->id = atoi(fields[0]);
		snprintf(mount->dev, sizeof(mount->dev), "%s", fields[2]);
		unescape(mount->root, sizeof(mount->root), fields[3]);
		unescape(mount->target, sizeof(mount->target), fields[4]);
		snprintf(mount->kind, sizeof(mount->kind), "%s", after[0]);
		unescape(mount->source, sizeof(mount->source), after[1]);
		snprintf(mount->super_options, sizeof(mount->super_options), "%s", after[2]);
	}
	free(copy);
	return whole;
}

bool mounts_read(const char *path, void (*take)(void *about, const struct mount *mount),
		 void *about)
{
	FILE *in = fopen(path, "re");
	struct mount mount;
	size_t room = 0;
	char *line = NULL;

	if (!in)
		return false;
	while (getline(&line, &room, in) > 0)
		if (mount_parse(line, &mount))
			take(about, &mount);
	free(line);
	fclose(in);
	return true;
}

/* The device of a mount's number; of btrfs, whose number is no device's, of its source. -1: none. */
static int device_of(const struct devices *all, const struct mount *mount)
{
	char path[PATH_MOST], dev[32];
	struct stat status;
	const char *last;

	if (strcmp(mount->kind, "btrfs") != 0 && strcmp(mount->kind, "bcachefs") != 0)
		return device_numbered(all, mount->dev);
	strcpy(path, mount->source);
	path[strcspn(path, ":")] = 0;
	if (!stat(path, &status) && S_ISBLK(status.st_mode)) {
		snprintf(dev, sizeof(dev), "%u:%u", major(status.st_rdev), minor(status.st_rdev));
		return device_numbered(all, dev);
	}
	last = strrchr(path, '/');
	return device_named(all, last ? last + 1 : path);
}

static bool lies_on(const struct devices *all, int device, int watched)
{
	struct indexes below = devices_below(all, device, true);
	bool found = device == watched || indexes_have(&below, watched);

	indexes_free(&below);
	return found;
}

/* Does a member of the btrfs that this device is of lie on the watched one? */
static bool btrfs_lies_on(const struct devices *all, int device, int watched)
{
	char path[PATH_MOST];
	struct dirent *entry;
	bool found = false;
	DIR *dir = opendir("/sys/fs/btrfs");

	while (dir && !found && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' ||
		    !path_of(path, "/sys/fs/btrfs/%s/devices/%s", entry->d_name,
			     all->at[device].name) ||
		    !exists(path))
			continue;
		for (int i = 0; !found && i < all->count; i++)
			found = path_of(path, "/sys/fs/btrfs/%s/devices/%s", entry->d_name,
					all->at[i].name) &&
				exists(path) && lies_on(all, i, watched);
	}
	if (dir)
		closedir(dir);
	return found;
}

struct search {
	const struct devices *all;
	int watched;
	struct mounted_list *found;
	struct mounted_list own; /* all mounts of our namespace, in which overlays are looked up */
	bool is_foreign;
};

static struct mounted *append(struct mounted_list *list)
{
	if (list->count == list->room) {
		int room = list->room ? list->room * 2 : 32;
		struct mounted *more = realloc(list->at, room * sizeof(*more));

		if (!more)
			return NULL;
		list->at = more;
		list->room = room;
	}
	return &list->at[list->count++];
}

static bool is_below(const char *path, const char *directory)
{
	size_t bytes = strlen(directory);

	return !strcmp(directory, "/") ||
	       (!strncmp(path, directory, bytes) && (path[bytes] == '/' || !path[bytes]));
}

/* The mount that an overlay's upper directory is in; NULL: no overlay, or not visible here. */
static const struct mount *below_overlay(const struct search *search, const struct mount *mount)
{
	char upper[PATH_MOST], option[PATH_MOST * 2];
	const struct mount *best = NULL;
	const char *at = strstr(mount->super_options, "upperdir=");
	char *real;

	if (strcmp(mount->kind, "overlay") != 0 || !at)
		return NULL;
	snprintf(option, sizeof(option), "%s", at + strlen("upperdir="));
	option[strcspn(option, ",")] = 0;
	unescape(upper, sizeof(upper), option);
	real = realpath(upper, NULL);
	for (int i = 0; real && i < search->own.count; i++) {
		const struct mount *other = &search->own.at[i].mount;

		if (is_below(real, other->target) &&
		    (!best || strlen(other->target) >= strlen(best->target)))
			best = other;
	}
	free(real);
	return best;
}

/* Is the first the better mount point of a file system? */
static int rank(const struct mounted *one, const struct mounted *other)
{
	int one_part = strcmp(one->mount.root, "/") != 0;
	int other_part = strcmp(other->mount.root, "/") != 0;

	if (one->is_overlay != other->is_overlay)
		return one->is_overlay - other->is_overlay;
	if (one->is_foreign != other->is_foreign)
		return one->is_foreign - other->is_foreign;
	if (one_part != other_part)
		return one_part - other_part;
	return (int)strlen(one->mount.target) - (int)strlen(other->mount.target);
}

static void keep(struct search *search, const struct mounted *mounted)
{
	struct mounted *place;

	for (int i = 0; i < search->found->count; i++) {
		place = &search->found->at[i];
		if (strcmp(place->mount.dev, mounted->mount.dev) != 0)
			continue;
		if (rank(mounted, place) < 0)
			*place = *mounted;
		return;
	}
	place = append(search->found);
	if (place)
		*place = *mounted;
}

static void take_mount(void *about, const struct mount *mount)
{
	struct search *search = about;
	const struct mount *below = below_overlay(search, mount);
	struct mounted mounted = { .mount = *mount, .is_foreign = search->is_foreign };

	mounted.is_overlay = !strcmp(mount->kind, "overlay");
	mounted.device = device_of(search->all, below ? below : mount);
	if (mounted.device < 0)
		return;
	if (lies_on(search->all, mounted.device, search->watched) ||
	    (!strcmp((below ? below : mount)->kind, "btrfs") &&
	     btrfs_lies_on(search->all, mounted.device, search->watched)))
		keep(search, &mounted);
}

static void take_own(void *about, const struct mount *mount)
{
	struct search *search = about;
	struct mounted *place = append(&search->own);

	if (place)
		*place = (struct mounted){ .mount = *mount };
}

/* A view is a mount namespace and a root: a process sees only the mounts below its root. */
static bool view_of(const char *process, char view[PATH_MOST])
{
	char path[PATH_MOST], space[64], root[PATH_MOST - 64];
	ssize_t a, b;

	if (!path_of(path, "/proc/%s/ns/mnt", process))
		return false;
	a = readlink(path, space, sizeof(space) - 1);
	if (!path_of(path, "/proc/%s/root", process))
		return false;
	b = readlink(path, root, sizeof(root) - 1);
	if (a < 0 || b < 0)
		return false;
	space[a] = root[b] = 0;
	return path_of(view, "%s%s", space, root);
}

static void search_others(struct search *search)
{
	char **seen = calloc(MOST_VIEWS, sizeof(*seen)), view[PATH_MOST], path[PATH_MOST];
	int count = 0;
	struct dirent *entry;
	DIR *dir = seen ? opendir("/proc") : NULL;

	if (dir && view_of("self", view))
		seen[count++] = strdup(view);
	while (dir && count < MOST_VIEWS && (entry = readdir(dir))) {
		bool is_new = isdigit(entry->d_name[0]) && view_of(entry->d_name, view);

		for (int i = 0; is_new && i < count; i++)
			is_new = !seen[i] || strcmp(seen[i], view) != 0;
		if (!is_new)
			continue;
		seen[count++] = strdup(view);
		if (path_of(path, "/proc/%s/mountinfo", entry->d_name))
			mounts_read(path, take_mount, search);
	}
	if (dir)
		closedir(dir);
	for (int i = 0; seen && i < count; i++)
		free(seen[i]);
	free(seen);
}

static int by_rank(const void *one, const void *other)
{
	int order = rank(one, other);

	return order ? order
		     : strcmp(((const struct mounted *)one)->mount.dev,
			      ((const struct mounted *)other)->mount.dev);
}

void mounted_find(const struct devices *all, int watched, struct mounted_list *found)
{
	struct search search = { .all = all, .watched = watched, .found = found };

	memset(found, 0, sizeof(*found));
	mounts_read("/proc/self/mountinfo", take_own, &search);
	for (int i = 0; i < search.own.count; i++)
		take_mount(&search, &search.own.at[i].mount);
	search.is_foreign = true;
	search_others(&search);
	if (found->count)
		qsort(found->at, found->count, sizeof(*found->at), by_rank);
	mounted_free(&search.own);
}

void mounted_free(struct mounted_list *found)
{
	free(found->at);
	memset(found, 0, sizeof(*found));
}
