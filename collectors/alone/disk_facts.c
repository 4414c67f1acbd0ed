// SPDX-License-Identifier: BSD-2-Clause
/* Facts of a disk's queue, and of the recording's own files; see disk_facts.h. */
#include "disk_facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alone/mounts.h"
#include "recorder/jsonl.h"

/* Settings that change the results. Their units are those of sysfs, in the setting's name. */
static const char *const settings[] = {
	"nr_requests",	 "logical_block_size", "physical_block_size", "max_sectors_kb",
	"read_ahead_kb", "nomerges",	       "write_cache",	      "fua",
	"wbt_lat_usec",	 "discard_max_bytes",  "rq_affinity",	      "iostats",
};

static void write_value(FILE *out, const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (digits && digits < 18 && !text[digits])
		fprintf(out, "%lld", strtoll(text, NULL, 10));
	else
		json_string(out, text);
}

void disk_facts_write(FILE *out, const struct device *device)
{
	char path[PATH_MOST], text[TEXT_MOST], *begin, *end;
	const char *separator = "";

	text[0] = 0;
	if (path_of(path, "%s/device/model", device->place))
		text_of(text, sizeof(text), path);
	text[strcspn(text, "\n")] = 0;
	for (size_t bytes = strlen(text); bytes && text[bytes - 1] == ' '; bytes--)
		text[bytes - 1] = 0;
	fputs("\"model\":", out);
	json_string(out, text);
	text[0] = 0;
	if (path_of(path, "%s/queue/scheduler", device->place))
		text_of(text, sizeof(text), path);
	begin = strchr(text, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (end)
		*end = 0;
	fputs(",\"scheduler\":", out);
	json_string(out, end ? begin + 1 : text);
	path_of(path, "%s/queue/rotational", device->place);
	fprintf(out, ",\"rotational\":%llu,\"queue\":{", (unsigned long long)number_of(path));
	for (unsigned int i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (!path_of(path, "%s/queue/%s", device->place, settings[i]) ||
		    !text_of(text, sizeof(text), path))
			continue; /* some drivers lack some settings, or make them write-only */
		fprintf(out, "%s\"%s\":", separator, settings[i]);
		separator = ",";
		write_value(out, text);
	}
	fputc('}', out);
}

static void write_inodes(FILE *out, int dir_fd, const char **separator)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".."))
			continue;
		fprintf(out, "%s%llu", *separator, (unsigned long long)entry->d_ino);
		*separator = ",";
	}
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
}

struct looked_for {
	int id;
	char dev[32];
};

static void take_mount(void *about, const struct mount *mount)
{
	struct looked_for *looked_for = about;

	if (mount->id == looked_for->id)
		strcpy(looked_for->dev, mount->dev);
}

/* Number of the file system of an open directory; stat(2) of btrfs gives a subvolume's instead. */
static void filesystem_number(int dir_fd, struct looked_for *found)
{
	char path[PATH_MOST], line[128];
	FILE *in;

	memset(found, 0, sizeof(*found));
	path_of(path, "/proc/self/fdinfo/%d", dir_fd);
	in = fopen(path, "re");
	while (in && fgets(line, sizeof(line), in))
		sscanf(line, "mnt_id: %d", &found->id);
	if (in)
		fclose(in);
	if (found->id)
		mounts_read("/proc/self/mountinfo", take_mount, found);
}

void own_files_write(FILE *out, int dir_fd)
{
	int tables = openat(dir_fd, "recorder", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct looked_for found;
	const char *separator = "";

	filesystem_number(dir_fd, &found);
	fprintf(out, ",\"own_files\":{\"dev\":\"%s\",\"inodes\":[", found.dev);
	write_inodes(out, dir_fd, &separator);
	if (tables >= 0) {
		write_inodes(out, tables, &separator);
		close(tables);
	}
	fputs("]}", out);
}
