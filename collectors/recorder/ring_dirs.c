// SPDX-License-Identifier: BSD-2-Clause
/* Files and directories of the ring; see ring_dirs.h. */
#include "ring_dirs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"

#define BLOCK_BYTES 512 /* of st_blocks */

static int dir_fd = -1, flight_fd = -1;

int ring_dirs_open(int fd)
{
	dir_fd = fd;
	flight_fd = openat(dir_fd, "flight.jsonl",
			   O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	return flight_fd < 0 ? -1 : 0;
}

void ring_dirs_close(void)
{
	if (flight_fd >= 0)
		close(flight_fd);
	flight_fd = -1;
}

const char *segment_name(uint32_t number, char name[32])
{
	snprintf(name, 32, "segment-%06u", number);
	return name;
}

void flight_say(const char *format, ...)
{
	char line[4096];
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (bytes < 0)
		return;
	if ((size_t)bytes > sizeof(line) - 2)
		bytes = sizeof(line) - 2;
	line[bytes++] = '\n';
	if (flight_fd >= 0 && write(flight_fd, line, bytes) != bytes)
		fail("flight.jsonl", strerror(errno));
}

uint64_t ring_bytes_in(const char *name)
{
	int fd = openat(dir_fd, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct stat status;
	uint64_t bytes = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while ((entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".."))
			continue;
		if (!fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) &&
		    (!S_ISDIR(status.st_mode) || !strcmp(entry->d_name, ".")))
			bytes += (uint64_t)status.st_blocks * BLOCK_BYTES;
	}
	closedir(dir);
	return bytes;
}

int ring_remove_dir(const char *name)
{
	int fd = openat(dir_fd, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			unlinkat(fd, entry->d_name, 0);
	closedir(dir);
	return unlinkat(dir_fd, name, AT_REMOVEDIR);
}

int ring_make_dir(const char *name)
{
	if (mkdirat(dir_fd, name, 0700))
		return -1;
	return openat(dir_fd, name, O_DIRECTORY | O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}
