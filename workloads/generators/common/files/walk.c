// SPDX-License-Identifier: BSD-2-Clause
/* Visits everything below a directory in readdir order; see walk.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "walk.h"

/* The names of one directory in readdir order. All are read before the first visit, as a visit may remove the file. */
struct directory {
	char *names; /* each: 'd' or 'f', the name, NUL */
	size_t bytes;
	size_t room;
};

static bool is_dir(int fd, const struct dirent *entry, const char *path)
{
	struct stat info;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	if (fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
		fail_errno("cannot stat a file in it", path);
	return S_ISDIR(info.st_mode);
}

static struct directory list_dir(DIR *dir, const char *path)
{
	struct directory list = { 0 };
	struct dirent *entry;

	while (true) {
		size_t length;

		errno = 0;
		entry = readdir(dir);
		if (entry == NULL)
			break;
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		length = strlen(entry->d_name) + 2;
		if (list.bytes + length > list.room) {
			list.room = list.room * 2 + length + 1024;
			list.names = must_alloc(realloc(list.names, list.room));
		}
		list.names[list.bytes] = is_dir(dirfd(dir), entry, path) ? 'd' : 'f';
		memcpy(list.names + list.bytes + 1, entry->d_name, length - 1);
		list.bytes += length;
	}
	if (errno != 0)
		fail_errno("cannot list", path);
	return list;
}

static void visit(walk_visit *function, const struct walk *walk, int fd, const char *name,
		  const char *path)
{
	if (function != NULL)
		function(walk->context, fd, name, path);
}

/* PATH: a buffer of PATH_MAX bytes with the directory's path below the top, LENGTH bytes long. */
static void walk_dir(const struct walk *walk, int parent_fd, const char *name, char *path,
		     size_t length)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const char *shown = length > 0 ? path : name;
	struct directory list;
	DIR *dir;

	if (fd < 0)
		fail_errno("cannot open the directory", shown);
	dir = fdopendir(fd);
	if (dir == NULL)
		fail_errno("cannot list", shown);
	list = list_dir(dir, shown);
	for (int pass = 0; pass < 2; pass++) {
		char kind = pass == 0 ? 'f' : 'd';

		for (size_t at = 0; at < list.bytes; at += strlen(list.names + at) + 1) {
			const char *entry = list.names + at + 1;
			int added;

			if (list.names[at] != kind)
				continue;
			added = snprintf(path + length, PATH_MAX - length, "%s%s",
					 length > 0 ? "/" : "", entry);
			if (added < 0 || (size_t)added >= PATH_MAX - length)
				fail(EXIT_RUN_FAILED, "%s: a name below it is too long", shown);
			if (kind == 'f') {
				visit(walk->file, walk, fd, entry, path);
			} else {
				visit(walk->enter_dir, walk, fd, entry, path);
				walk_dir(walk, fd, entry, path, length + (size_t)added);
				visit(walk->leave_dir, walk, fd, entry, path);
			}
			path[length] = '\0';
		}
	}
	free(list.names);
	if (closedir(dir) != 0)
		fail_errno("cannot close the directory", shown);
}

void walk_tree(const struct walk *walk, int dir_fd, const char *top)
{
	char path[PATH_MAX] = "";

	walk_dir(walk, dir_fd, top, path, 0);
}

static void count_file(void *context, int dir_fd, const char *name, const char *path)
{
	(void)dir_fd;
	(void)name;
	(void)path;
	++*(uint64_t *)context;
}

void walk_expect(int dir_fd, const char *top, uint64_t living)
{
	uint64_t listed = 0;
	struct walk walk = { .file = count_file, .context = &listed };

	walk_tree(&walk, dir_fd, top);
	if (listed != living)
		fail(EXIT_RUN_FAILED,
		     "%s: %" PRIu64 " files are listed where %" PRIu64
		     " must be; look in dmesg, and check the file system",
		     top, listed, living);
	printf("verified: %" PRIu64 " files are left, all as they were written\n", living);
}
