// SPDX-License-Identifier: BSD-2-Clause
/* Small files of sysfs and procfs; see sysfs.h. */
#include "sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool path_of(char path[PATH_MOST], const char *format, ...)
{
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(path, PATH_MOST, format, args);
	va_end(args);
	if (bytes >= 0 && bytes < PATH_MOST)
		return true;
	path[0] = 0;
	return false;
}

bool text_of(char *text, size_t room, const char *path)
{
	size_t bytes = 0;
	ssize_t n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	text[0] = 0;
	if (fd < 0)
		return false;
	while (bytes < room - 1) {
		n = read(fd, text + bytes, room - 1 - bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		bytes += n;
	}
	close(fd);
	text[bytes] = 0;
	if (bytes && text[bytes - 1] == '\n')
		text[bytes - 1] = 0;
	return n >= 0;
}

uint64_t number_of(const char *path)
{
	char text[32];

	return text_of(text, sizeof(text), path) && text[0] >= '0' && text[0] <= '9'
		       ? strtoull(text, NULL, 10)
		       : 0;
}

bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static int is_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

void names_in(const char *directory, void (*take)(void *about, const char *name), void *about)
{
	struct dirent **entries;
	int count = scandir(directory, &entries, is_name, versionsort);

	for (int i = 0; i < count; i++) {
		take(about, entries[i]->d_name);
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
}

bool target_name(char name[NAME_MOST], const char *path)
{
	char *real = realpath(path, NULL);
	const char *last = real ? strrchr(real, '/') : NULL;
	bool fits = last && last[1] && strlen(last + 1) < NAME_MOST;

	if (fits)
		strcpy(name, last + 1);
	free(real);
	return fits;
}
