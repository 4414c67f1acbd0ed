// SPDX-License-Identifier: BSD-2-Clause
/* One directory; see directory.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "directory.h"

int directory_make(int at, const char *name)
{
	int fd;

	if (mkdirat(at, name, 0755) != 0)
		fail_errno("cannot make the directory", name);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fail_errno("cannot open the directory", name);
	return fd;
}

static unsigned char type_of(int fd, const struct dirent *entry, const char *path)
{
	struct stat info;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type;
	if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
		fail_errno("cannot stat a file in it", path);
	return (unsigned char)IFTODT(info.st_mode);
}

static void add(struct directory *list, const struct dirent *entry, unsigned char type)
{
	size_t length = strlen(entry->d_name) + 1;

	if (list->count == list->room) {
		list->room = list->room * 2 + 64;
		list->entries =
			must_alloc(realloc(list->entries, list->room * sizeof(*list->entries)));
	}
	if (list->names_bytes + length > list->names_room) {
		list->names_room = list->names_room * 2 + length + 1024;
		list->names = must_alloc(realloc(list->names, list->names_room));
	}
	list->entries[list->count++] = (struct directory_entry){
		.inode = entry->d_ino,
		.name = list->names_bytes,
		.type = type,
	};
	memcpy(list->names + list->names_bytes, entry->d_name, length);
	list->names_bytes += length;
}

void directory_read(struct directory *listing, int dir_fd, const char *path)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (dir == NULL)
		fail_errno("cannot list", path);
	*listing = (struct directory){ 0 };
	for (;;) {
		errno = 0;
		entry = readdir(dir);
		if (entry == NULL)
			break;
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			add(listing, entry, type_of(fd, entry, path));
	}
	if (errno != 0)
		fail_errno("cannot list", path);
	if (closedir(dir) != 0)
		fail_errno("cannot close the directory", path);
}

const char *directory_name(const struct directory *listing, size_t entry)
{
	return listing->names + listing->entries[entry].name;
}

static int by_inode(const void *left, const void *right)
{
	const struct directory_entry *a = left, *b = right;

	return (a->inode > b->inode) - (a->inode < b->inode);
}

void directory_sort_by_inode(struct directory *listing)
{
	if (listing->count > 0)
		qsort(listing->entries, listing->count, sizeof(*listing->entries), by_inode);
}

void directory_free(struct directory *listing)
{
	free(listing->entries);
	free(listing->names);
	*listing = (struct directory){ 0 };
}
