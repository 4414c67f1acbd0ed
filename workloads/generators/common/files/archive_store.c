// SPDX-License-Identifier: BSD-2-Clause
/*
 * Keeps archives: NAME.tar, and NAME.sum with the length and checksum of NAME.tar. NAME.tar is renamed into place when
 * it is complete. A process that makes or removes an archive holds a lock on the folder. A reader needs no lock: the
 * archive it has open stays readable after its removal.
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

#define FORMAT	     1 /* version of the archive format; part of the archives' names */
#define BUFFER_BYTES (1024 * 1024)
#define SPARE_BYTES  (256 << 20) /* left free on the archives' disk */
#define REMEDY	     "name a directory with room in SEEKMETER_SCRATCH, or give --stream (ARGS=--stream)"

static char folder[PATH_MAX];

/* Makes the folder webcache in PARENT, and PARENT too. Returns whether the folder exists. */
static bool make_folder(const char *parent)
{
	if ((size_t)snprintf(folder, sizeof(folder), "%s/webcache", parent) >= sizeof(folder))
		fail(EXIT_RUN_FAILED, "%s: the path is too long", parent);
	return (mkdir(parent, 0700) == 0 || errno == EEXIST) &&
	       (mkdir(folder, 0700) == 0 || errno == EEXIST);
}

/* Makes $HOME/.cache/seekmeter/webcache. */
static bool make_folder_at_home(void)
{
	const char *home = getenv("HOME");
	char cache[PATH_MAX], ours[PATH_MAX];

	if (home == NULL || home[0] == '\0')
		home = "/";
	if ((size_t)snprintf(cache, sizeof(cache), "%s/.cache", home) >= sizeof(cache) ||
	    (size_t)snprintf(ours, sizeof(ours), "%s/seekmeter", cache) >= sizeof(ours))
		fail(EXIT_RUN_FAILED, "%s: the path is too long", home);
	return (mkdir(cache, 0700) == 0 || errno == EEXIST) && make_folder(ours);
}

/*
 * Opens and locks the folder. $SEEKMETER_SCRATCH may be writable by root only, and the generator may run as the user
 * behind sudo: then the folder is in $HOME.
 */
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
	/* tar extracts the archives of this folder, so no other user may write them */
	if (info.st_uid != geteuid() || info.st_mode & 022)
		fail(EXIT_RUN_FAILED,
		     "%s: can be written by others; remove it, and the next run makes it", folder);
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

/* Opens a kept archive if its length and checksum are those in NAME.sum. -1: there is none. */
static int open_kept(int dir, const char *tar, const char *sum)
{
	uint64_t bytes = 0, noted_bytes = 0;
	uint32_t noted_crc = 0;
	int fd = openat(dir, tar, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	int note = openat(dir, sum, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char line[64] = "";

	if (fd >= 0 && note >= 0 && read(note, line, sizeof(line) - 1) > 0 &&
	    sscanf(line, "%" SCNu64 " %" SCNx32, &noted_bytes, &noted_crc) == 2 &&
	    checksum(fd, tar, &bytes) == noted_crc && bytes == noted_bytes) {
		close(note);
		futimens(fd, NULL); /* the archives used last are kept */
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
			continue; /* removed meanwhile: sorts as the oldest */
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

/* Removes all archives but the KEPT newest. Returns the number of removed archives. */
static int remove_all_but(int dir, int kept)
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
			strcpy(dot, ".sum"); /* fits: no longer than .tar or .part */
			if (unlinkat(dir, entries[i]->d_name, 0) != 0 && errno != ENOENT)
				fail_errno("cannot delete", entries[i]->d_name);
			removed++;
		}
		free(entries[i]);
	}
	free(entries);
	return removed;
}

static void require_space(int dir, uint64_t bytes)
{
	struct statvfs status;
	uint64_t room;

	if (fstatvfs(dir, &status) != 0)
		fail_errno("cannot get its free space", folder);
	room = (uint64_t)status.f_bavail * status.f_frsize;
	if (room < bytes + SPARE_BYTES)
		fail(EXIT_RUN_FAILED,
		     "%s: has %" PRIu64 " MB free, less than the archive's %" PRIu64
		     " MB and some spare; " REMEDY,
		     folder, room / 1000000, bytes / 1000000);
}

static int make_archive(const struct population *all, int dir, const char *tar, const char *sum)
{
	char part[NAME_MAX], line[64];
	uint64_t bytes;
	uint32_t crc;
	int fd, note, length;

	remove_all_but(dir, ARCHIVES_KEPT - 1);
	require_space(dir, archive_bytes(all));
	snprintf(part, sizeof(part), "%.200s.part", tar);
	if ((unlinkat(dir, sum, 0) != 0 && errno != ENOENT) ||
	    (unlinkat(dir, part, 0) != 0 && errno != ENOENT))
		fail_errno("cannot delete", tar);
	fd = openat(dir, part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		fail(EXIT_RUN_FAILED, "%s/%s: cannot create: %s; " REMEDY, folder, part,
		     strerror(errno));
	archive_write(all, fd, part);
	if (fsync(fd) != 0) /* else its writeback falls into the measured time */
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
		fd = make_archive(all, dir, tar, sum);
	close(dir); /* and with it the lock */
	if (lseek(fd, 0, SEEK_SET) != 0)
		fail_errno("cannot be read from its beginning", tar);
	return fd;
}

int archive_remove_all(void)
{
	int dir = open_folder();
	int removed = remove_all_but(dir, 0);

	close(dir);
	return removed;
}
