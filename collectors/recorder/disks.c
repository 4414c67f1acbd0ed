// SPDX-License-Identifier: BSD-2-Clause
/* What /sys/block tells of the disks and volumes that the options name; disks.h has the options. */
#include "disks.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "options.h"

#define TEXT(macro)    #macro
#define TEXT_OF(macro) TEXT(macro)
#define PATH_BYTES     128
#define ENTRY_BYTES    256 /* of a directory */

/* Opens /sys/block/NAME/…; NULL: there is no such file. */
static FILE *open_of(const struct disk *disk, const char *file)
{
	char path[PATH_BYTES + ENTRY_BYTES];

	snprintf(path, sizeof(path), "/sys/block/%s/%s", disk->name, file);
	return fopen(path, "re");
}

/* The first entry of a directory below /sys/block/NAME/ that begins with `prefix`; false: there is none. */
static bool first_entry(const struct disk *disk, const char *directory, const char *prefix,
			char name[ENTRY_BYTES])
{
	char path[PATH_BYTES];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/block/%s/%s", disk->name, directory);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		found = entry->d_name[0] != '.' && !strncmp(entry->d_name, prefix, strlen(prefix));
		if (found)
			snprintf(name, ENTRY_BYTES, "%s", entry->d_name);
	}
	closedir(dir);
	return found;
}

/* Depth of the deepest tag set, and the number of queues: /sys/block/NAME/mq/N/nr_tags. */
static void count_tags(struct disk *disk)
{
	char path[PATH_BYTES];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/block/%s/mq", disk->name);
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		char file[sizeof(path) + sizeof(entry->d_name) + 16];
		unsigned int tags = 0;
		FILE *in;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s/nr_tags", path, entry->d_name);
		in = fopen(file, "re");
		if (!in)
			continue;
		if (fscanf(in, "%u", &tags) == 1 && tags > disk->tags)
			disk->tags = tags;
		fclose(in);
		disk->hw_queues++;
	}
	closedir(dir);
}

/* Is the volume made of LVM's parts of a raid, NAME_rimage_0 and so on? */
static bool has_images(const struct disk *volume)
{
	char path[PATH_BYTES], name[ENTRY_BYTES] = "";
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/block/%s/slaves", volume->name);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir))) {
		char file[PATH_BYTES + 2 * ENTRY_BYTES];
		FILE *in;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s/dm/name", path, entry->d_name);
		in = fopen(file, "re");
		if (!in)
			continue;
		found = fgets(name, sizeof(name), in) && strstr(name, "_rimage_");
		fclose(in);
	}
	closedir(dir);
	return found;
}

/* An unsigned number at the start of a file below /sys/block/NAME/; false: there is none. */
static bool read_number(const struct disk *disk, const char *file, const char *format,
			unsigned long long *number)
{
	FILE *in = open_of(disk, file);
	bool got = in && fscanf(in, format, number) == 1;

	if (in)
		fclose(in);
	return got;
}

/* The member of md with this slot, major << 20 | minor; 0: none. */
static uint32_t member_in_slot(const struct disk *volume, unsigned int wanted)
{
	char path[PATH_BYTES], file[ENTRY_BYTES + 32];
	struct dirent *entry;
	unsigned int major, minor;
	uint32_t found = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/block/%s/md", volume->name);
	dir = opendir(path);
	if (!dir)
		return 0;
	while (!found && (entry = readdir(dir))) {
		unsigned long long slot;
		FILE *in;

		if (strncmp(entry->d_name, "dev-", 4) != 0)
			continue;
		snprintf(file, sizeof(file), "md/%s/slot", entry->d_name);
		if (!read_number(volume, file, "%llu", &slot) || slot != wanted)
			continue;
		snprintf(file, sizeof(file), "md/%s/block/dev", entry->d_name);
		in = open_of(volume, file);
		if (in && fscanf(in, "%u:%u", &major, &minor) == 2)
			found = major << 20 | minor;
		if (in)
			fclose(in);
	}
	closedir(dir);
	return found;
}

/*
 * Slot of the member with the first sector, by md's level and layout (drivers/md/raid5.c, raid5_compute_sector(), for
 * stripe 0); -1: not known.
 */
static int first_slot(unsigned long long level, unsigned long long layout)
{
	static const int raid6[] = { 1, 2, 1, 2, 2, 0 }; /* layouts 0 to 5 */

	if (level == 6 && layout < 6)
		return raid6[layout];
	if (level == 6 && (layout < 16 || layout > 20))
		return -1;
	if (level == 6)
		layout -= 16; /* those of raid5, with Q on the last member */
	switch (layout) {
	case 0: /* left-asymmetric */
	case 2: /* left-symmetric */
	case 5: /* parity-last */
		return 0;
	case 1: /* right-asymmetric */
	case 3: /* right-symmetric */
	case 4: /* parity-first */
		return 1;
	default:
		return -1;
	}
}

/* What kind of layer the volume is: md's level and members, and whether it is made of other devices. */
static void read_layer(struct disk *volume)
{
	unsigned long long level, layout, offset;
	char name[ENTRY_BYTES], file[ENTRY_BYTES + 16];
	int slot;

	/* LVM's raid is md inside device-mapper, where md traces no remap; bcache has no such trace. */
	volume->shares_pages = first_entry(volume, "bcache", "", name) || has_images(volume);
	/* A path of an NVMe head is no slave: it is listed in multipath/ (since 6.15), or nowhere. */
	volume->has_parts = first_entry(volume, "slaves", "", name) ||
			    !strncmp(volume->name, "nvme", 4);
	if (!read_number(volume, "md/level", "raid%llu", &level) || level < 4 || level > 6)
		return;
	volume->has_parity = true;
	if (!first_entry(volume, "md", "dev-", name))
		return;
	snprintf(file, sizeof(file), "md/%s/offset", name);
	if (read_number(volume, file, "%llu", &offset))
		volume->data_offset_sectors = offset;
	slot = read_number(volume, "md/layout", "%llu", &layout) ? first_slot(level, layout) : -1;
	if (level == 4)
		slot = 0;
	if (slot >= 0)
		volume->first_member = member_in_slot(volume, slot);
}

/* Reads what all devices have. disk is cleared first. */
static int open_device(struct disk *disk, const char *name)
{
	FILE *in;
	int got;

	memset(disk, 0, sizeof(*disk));
	if (strchr(name, '/') || strlen(name) >= sizeof(disk->name))
		return fail(name, "not a disk; give a name from /sys/block");
	snprintf(disk->name, sizeof(disk->name), "%s", name);
	count_tags(disk);
	in = open_of(disk, "queue/fua");
	if (in) {
		disk->fua = fgetc(in) == '1';
		fclose(in);
	}
	in = open_of(disk, "dev");
	if (!in)
		return 1;
	got = fscanf(in, "%u:%u", &disk->major, &disk->minor);
	fclose(in);
	return got == 2 ? 0 : fail(name, "its device number can't be read");
}

static int open_numbered(struct disk *disk, const char *name)
{
	int err = open_device(disk, name);

	return err > 0 ? fail(name, "no such disk; give a name from /sys/block") : err;
}

static int room_for(const struct options *options, const char *name)
{
	return options->disk_count < MAX_DEVS
		       ? 0
		       : fail(name, "too many disks; at most " TEXT_OF(MAX_DEVS));
}

int disks_add(struct options *options, const char *name)
{
	struct disk *disk = &options->disks[options->disk_count];

	if (room_for(options, name) || open_numbered(disk, name))
		return -1;
	if (!disk->tags)
		return fail(
			name,
			"has no request queue (blk-mq); name it as --volume, and the disks below it");
	options->disk_count++;
	return 0;
}

int disks_add_hidden(struct options *options, const char *text)
{
	struct disk *disk = &options->disks[options->disk_count];
	unsigned int major, minor;
	int name_at = 0;

	if (room_for(options, text))
		return -1;
	if (sscanf(text, "%u:%u=%n", &major, &minor, &name_at) != 2 || !name_at ||
	    major != HIDDEN_MAJOR)
		return fail(text, "not " TEXT_OF(HIDDEN_MAJOR) ":N=NAME");
	switch (open_device(disk, text + name_at)) {
	case 0:
		return fail(text, "has a device number; name it as --disk");
	case -1:
		return -1;
	}
	if (!disk->tags)
		return fail(text, "has no request queue (blk-mq)");
	disk->major = major;
	disk->minor = minor;
	disk->is_hidden = true;
	options->disk_count++;
	return 0;
}

int disks_add_volume(struct options *options, const char *name)
{
	struct disk *volume = &options->disks[options->disk_count];

	if (room_for(options, name) || open_numbered(volume, name))
		return -1;
	volume->is_volume = true;
	read_layer(volume);
	options->disk_count++;
	options->volume_count++;
	return 0;
}

int disks_add_component(struct options *options, const char *text)
{
	unsigned int major, minor;

	if (sscanf(text, "%u:%u", &major, &minor) != 2)
		return fail(text, "not MAJOR:MINOR");
	if (options->component_count == MAX_COMPONENTS)
		return fail(text, "too many components; at most " TEXT_OF(MAX_COMPONENTS));
	options->components[options->component_count++] = major << 20 | minor;
	return 0;
}

int disks_add_counted(struct options *options, const char *name)
{
	if (options->counted_count == MAX_DEVS)
		return fail(name, "too many disks to count; at most " TEXT_OF(MAX_DEVS));
	if (open_numbered(&options->counted[options->counted_count], name))
		return -1;
	options->counted_count++;
	return 0;
}

int disks_holder(const struct options *options, uint32_t component)
{
	char path[PATH_BYTES];
	struct dirent *entry;
	int holders = 0, found = -1;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/holders", component >> 20,
		 component & 0xfffff);
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		holders++;
		for (int i = 0; i < options->disk_count; i++)
			if (options->disks[i].is_volume &&
			    !strcmp(options->disks[i].name, entry->d_name))
				found = i;
	}
	closedir(dir);
	return holders == 1 ? found : -1;
}
