// SPDX-License-Identifier: BSD-2-Clause
/*
 * Archives that are kept: NAME.tar, and beside it NAME.sum with its length and checksum, renamed into place when both
 * are whole. Whoever makes or removes one holds a lock on the folder; who reads one has it open, and may keep it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zlib.h>

#include "archive.h"
#include "common/session/fail.h"

#define FORMAT	     1 /* of archives; another one, other names */
#define BUFFER_BYTES (1024 * 1024)
#define SPARE_BYTES  (256 << 20) /* left free on the disk that they are on */
#define REMEDY	     "name a directory with room in SEEKMETER_SCRATCH, or give --stream (ARGS=--stream)"

static char folder[PATH_MAX];

/* A folder in another that is made, too. Returns whether the folder is there. */
static bool make_folder(const char *above)
{
	if ((size_t)snprintf(folder, sizeof(folder), "%s/webcache", above) >= sizeof(folder))
		fail(EXIT_RUN_FAILED, "%s: is too long for a name", above);
	return (mkdir(above, 0700) == 0 || errno == EEXIST) &&
	       (mkdir(folder, 0700) == 0 || errno == EEXIST);
}

/* $HOME/.cache/seekmeter/webcache. */
static bool make_folder_at_home(void)
{
	const char *home = getenv("HOME");
	char cache[PATH_MAX], ours[PATH_MAX];

	if (home == NULL || home[0] == '\0')
		home = "/";
	if ((size_t)snprintf(cache, sizeof(cache), "%s/.cache", home) >= sizeof(cache) ||
	    (size_t)snprintf(ours, sizeof(ours), "%s/seekmeter", cache) >= sizeof(ours))
		fail(EXIT_RUN_FAILED, "%s: is too long for a name", home);
	return (mkdir(cache, 0700) == 0 || errno == EEXIST) && make_folder(ours);
}

/* Returns the locked folder. A scratch directory may be root's alone: behind sudo we run as the user. */
static int open_folder(void)
{
	const char *scratch = getenv("SEEKMETER_SCRATCH");
	bool is_made = false;
	struct stat info;
	int fd;

	if (scratch != NULL && scratch[0] != '\0')
		is_made = make_folder(scratch);
	if (!is_made && (scratch == NULL || scratch[0] == '\0' || errno == EACCES))
		is_made = make_folder_at_home();
	if (!is_made)
		fail(EXIT_RUN_FAILED, "%s: cannot be made: %s; " REMEDY, folder, strerror(errno));
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &info) != 0)
		fail_errno("cannot open the directory", folder);
	/* what is in it is extracted */
	if (info.st_uid != geteuid() || info.st_mode & 022)
		fail(EXIT_RUN_FAILED, "%s: can be written by others; remove it, it is made anew",
		     folder);
	if (flock(fd, LOCK_EX) != 0)
		fail_errno("cannot be locked", folder);
	return fd;
}

static uint32_t checksum(int fd, const char *path, uint64_t *bytes)
{
	unsigned char *buffer = must_alloc(malloc(BUFFER_BYTES));
	uLong sum = crc32(0, NULL, 0);
	ssize_t got;

	*bytes = 0;
	while ((got = pread(fd, buffer, BUFFER_BYTES, (off_t)*bytes)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			fail_errno("cannot read", path);
		sum = crc32(sum, buffer, (uInt)got);
		*bytes += (uint64_t)got;
	}
	free(buffer);
	return (uint32_t)sum;
}

/* An archive that is as it was when it was made; -1: there is none. */
static int open_kept(int dir, const char *tar, const char *sum)
{
	uint64_t bytes = 0, must = 0;
	uint32_t told = 0;
	int fd = openat(dir, tar, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int note = openat(dir, sum, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char line[64] = "";

	if (fd >= 0 && note >= 0 && read(note, line, sizeof(line) - 1) > 0 &&
	    sscanf(line, "%" SCNu64 " %" SCNx32, &must, &told) == 2 &&
	    checksum(fd, tar, &bytes) == told && bytes == must) {
		close(note);
		futimens(fd, NULL); /* the last ones used are kept */
		return fd;
	}
	if (fd >= 0)
		close(fd);
	if (note >= 0)
		close(note);
	return -1;
}

static int by_time(const struct dirent **left, const struct dirent **right)
{
	char path[PATH_MAX + 300];
	struct stat info[2] = { 0 };
	const struct dirent *entries[2] = { *left, *right };

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
		if (stat(path, &info[i]) != 0)
			continue; /* gone: the oldest of all */
	}
	return (info[0].st_mtim.tv_sec < info[1].st_mtim.tv_sec) -
	       (info[0].st_mtim.tv_sec > info[1].st_mtim.tv_sec);
}

static int is_archive(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return strncmp(entry->d_name, "population-", 11) == 0 && dot != NULL &&
	       (strcmp(dot, ".tar") == 0 || strcmp(dot, ".part") == 0);
}

/* All but the newest ones. Returns how many. */
static int remove_but(int dir, int kept)
{
	struct dirent **entries;
	int count = scandir(folder, &entries, is_archive, by_time);
	int removed = 0;

	if (count < 0)
		fail_errno("cannot list", folder);
	for (int i = 0; i < count; i++) {
		if (i >= kept) {
			char *dot = strrchr(entries[i]->d_name, '.');

			if (unlinkat(dir, entries[i]->d_name, 0) != 0)
				fail_errno("cannot delete", entries[i]->d_name);
			strcpy(dot, ".sum"); /* as long as the others, or shorter */
			if (unlinkat(dir, entries[i]->d_name, 0) != 0 && errno != ENOENT)
				fail_errno("cannot delete", entries[i]->d_name);
			removed++;
		}
		free(entries[i]);
	}
	free(entries);
	return removed;
}

static void need_room(int dir, uint64_t bytes)
{
	struct statvfs status;
	uint64_t room;

	if (fstatvfs(dir, &status) != 0)
		fail_errno("cannot be asked for its room", folder);
	room = (uint64_t)status.f_bavail * status.f_frsize;
	if (room < bytes + SPARE_BYTES)
		fail(EXIT_RUN_FAILED,
		     "%s: has room for %" PRIu64 " MB, and an archive of %" PRIu64
		     " MB is to be made; " REMEDY,
		     folder, room / 1000000, bytes / 1000000);
}

static int make(const struct population *all, int dir, const char *tar, const char *sum)
{
	char part[NAME_MAX], line[64];
	uint64_t bytes;
	uint32_t crc;
	int fd, note, length;

	remove_but(dir, ARCHIVES_KEPT - 1);
	need_room(dir, archive_bytes(all));
	snprintf(part, sizeof(part), "%.200s.part", tar);
	if ((unlinkat(dir, sum, 0) != 0 && errno != ENOENT) ||
	    (unlinkat(dir, part, 0) != 0 && errno != ENOENT))
		fail_errno("cannot delete", tar);
	fd = openat(dir, part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		fail(EXIT_RUN_FAILED, "%s/%s: cannot create: %s; " REMEDY, folder, part,
		     strerror(errno));
	archive_write(all, fd, part);
	if (fsync(fd) != 0) /* or its writing back falls into the measured time */
		fail_errno("cannot sync", part);
	crc = checksum(fd, part, &bytes);
	if (renameat(dir, part, dir, tar) != 0)
		fail_errno("cannot rename", part);
	note = openat(dir, sum, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	length = snprintf(line, sizeof(line), "%" PRIu64 " %08" PRIx32 "\n", bytes, crc);
	if (note < 0 || write(note, line, (size_t)length) != length || close(note) != 0)
		fail_errno("cannot write", sum);
	return fd;
}

int archive_open(const struct population *all, bool *made)
{
	char tar[NAME_MAX], sum[NAME_MAX];
	int dir = open_folder();
	int fd;

	snprintf(tar, sizeof(tar), "population-%d-%" PRIu64 "-%" PRIu32 "-%" PRIu64 ".tar", FORMAT,
		 archive_bytes(all), all->second_level, all->seed);
	snprintf(sum, sizeof(sum), "%.*s.sum", (int)strlen(tar) - 4, tar);
	fd = open_kept(dir, tar, sum);
	*made = fd < 0;
	if (fd < 0)
		fd = make(all, dir, tar, sum);
	close(dir); /* and with it the lock */
	if (lseek(fd, 0, SEEK_SET) != 0)
		fail_errno("cannot be read from its beginning", tar);
	return fd;
}

int archive_remove_all(void)
{
	int dir = open_folder();
	int removed = remove_but(dir, 0);

	close(dir);
	return removed;
}
