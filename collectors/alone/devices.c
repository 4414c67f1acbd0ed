// SPDX-License-Identifier: BSD-2-Clause
/* The block devices of this machine and how they lie on each other; see devices.h. */
#include "devices.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool is_dev(const char *text)
{
	unsigned int major, minor;
	int end = 0;

	return sscanf(text, "%u:%u%n", &major, &minor, &end) == 2 && !text[end];
}

/* Adds one device of /sys/class/block; one that has just gone is left out. */
static void add_device(void *about, const char *name)
{
	struct devices *all = about;
	char path[PATH_MOST], *real;
	struct device *device;

	if (strlen(name) >= NAME_MOST || !path_of(path, "/sys/class/block/%s", name))
		return;
	if (all->count == all->room) {
		int room = all->room ? all->room * 2 : 64;
		struct device *more = realloc(all->at, room * sizeof(*more));

		if (!more)
			return;
		all->at = more;
		all->room = room;
	}
	real = realpath(path, NULL);
	if (!real || strlen(real) >= PATH_MOST) {
		free(real);
		return;
	}
	device = &all->at[all->count++];
	memset(device, 0, sizeof(*device));
	strcpy(device->name, name);
	strcpy(device->place, real);
	free(real);
	if (path_of(path, "%s/dev", device->place))
		text_of(device->dev, sizeof(device->dev), path);
	if (!is_dev(device->dev))
		device->dev[0] = 0;
	device->is_partition = path_of(path, "%s/partition", device->place) && exists(path);
	device->has_queue = path_of(path, "%s/mq", device->place) && exists(path);
	if (path_of(path, "%s/size", device->place))
		device->sectors = number_of(path);
	if (device->is_partition && path_of(path, "%s/start", device->place))
		device->first_sector = number_of(path);
}

/* Index of a partition's disk; a whole device is its own. */
static int disk_of(const struct devices *all, int index)
{
	const struct device *device = &all->at[index];
	char parent[PATH_MOST];
	char *last;
	int disk;

	if (!device->is_partition)
		return index;
	strcpy(parent, device->place);
	last = strrchr(parent, '/');
	if (!last)
		return index;
	*last = 0;
	last = strrchr(parent, '/');
	disk = last ? device_named(all, last + 1) : -1;
	return disk < 0 ? index : disk;
}

/* The device below a loop device; -1: a file is, or nothing. The device itself is asked: its path may be stale. */
static int below_loop(const struct devices *all, const struct device *device)
{
	char path[PATH_MOST], dev[32];
	struct loop_info64 info;
	int fd, err;

	if (!path_of(path, "%s/loop", device->place) || !exists(path) ||
	    !path_of(path, "/dev/%s", device->name))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -1;
	err = ioctl(fd, LOOP_GET_STATUS64, &info);
	close(fd);
	if (err || !info.lo_rdevice)
		return -1;
	snprintf(dev, sizeof(dev), "%u:%u", major(info.lo_rdevice), minor(info.lo_rdevice));
	return device_numbered(all, dev);
}

struct linking {
	struct devices *all;
	int index;
	bool is_holder; /* the names are of devices above */
};

static void link_one(struct devices *all, int upper, int lower)
{
	if (upper < 0 || lower < 0 || upper == lower)
		return;
	indexes_add(&all->at[upper].below, lower);
	indexes_add(&all->at[lower].above, upper);
}

static void link_name(void *about, const char *name)
{
	const struct linking *linking = about;
	int other = device_named(linking->all, name);

	if (linking->is_holder)
		link_one(linking->all, other, linking->index);
	else
		link_one(linking->all, linking->index, other);
}

/* The head of NVMe multipath above a path: nvme0n1 above nvme0c1n1; -1: it is no path. */
static int head_of(const struct devices *all, const struct device *device)
{
	unsigned int subsystem, controller, space;
	char head[NAME_MOST];
	int end = 0;

	if (sscanf(device->name, "nvme%uc%un%u%n", &subsystem, &controller, &space, &end) != 3 ||
	    device->name[end])
		return -1;
	snprintf(head, sizeof(head), "nvme%un%u", subsystem, space);
	return device_named(all, head);
}

static void link_device(struct devices *all, int index)
{
	struct device *device = &all->at[index];
	struct linking linking = { all, index, false };
	char path[PATH_MOST];

	if (device->is_partition)
		link_one(all, index, device->disk);
	if (path_of(path, "%s/slaves", device->place))
		names_in(path, link_name, &linking);
	link_one(all, head_of(all, device), index);
	link_one(all, index, below_loop(all, device));
	/* The upper device's own link, slaves/, may be gone already. */
	linking.is_holder = true;
	if (path_of(path, "%s/holders", device->place))
		names_in(path, link_name, &linking);
}

bool devices_read(struct devices *all)
{
	memset(all, 0, sizeof(*all));
	names_in("/sys/class/block", add_device, all);
	for (int i = 0; i < all->count; i++)
		all->at[i].disk = disk_of(all, i);
	for (int i = 0; i < all->count; i++)
		link_device(all, i);
	for (int i = 0; i < all->count; i++)
		describe_device(&all->at[i]);
	return all->count > 0;
}

void devices_free(struct devices *all)
{
	for (int i = 0; i < all->count; i++) {
		indexes_free(&all->at[i].below);
		indexes_free(&all->at[i].above);
	}
	free(all->at);
	memset(all, 0, sizeof(*all));
}

int device_named(const struct devices *all, const char *name)
{
	for (int i = 0; i < all->count; i++)
		if (!strcmp(all->at[i].name, name))
			return i;
	return -1;
}

int device_numbered(const struct devices *all, const char *dev)
{
	for (int i = 0; dev[0] && i < all->count; i++)
		if (!strcmp(all->at[i].dev, dev))
			return i;
	return -1;
}

int device_given(const struct devices *all, const char *given)
{
	char path[PATH_MOST], name[NAME_MOST], dev[32];
	struct stat status;

	if (!path_of(path, given[0] == '/' ? "%s" : "/dev/%s", given))
		return -1;
	/* A node is followed to its number: another device may have its name. */
	if (!stat(path, &status)) {
		if (!S_ISBLK(status.st_mode))
			return -1;
		snprintf(dev, sizeof(dev), "%u:%u", major(status.st_rdev), minor(status.st_rdev));
		return device_numbered(all, dev);
	}
	/* Without the node, as in a container: by the kernel's name, where "!" stands for "/", or by the label. */
	snprintf(name, sizeof(name), "%.*s", NAME_MOST - 1,
		 strncmp(path, "/dev/", 5) ? path : path + 5);
	for (char *c = name; *c; c++)
		if (*c == '/')
			*c = '!';
	for (int i = 0; i < all->count; i++)
		if (!strcmp(all->at[i].name, name) || !strcmp(all->at[i].label, path))
			return i;
	return -1;
}

bool is_leaf(const struct device *device)
{
	return device->has_queue &&
	       (!strcmp(device->kind, "disk") || !strcmp(device->kind, "loop") ||
		!strcmp(device->kind, "nvme-path"));
}

bool is_volume(const struct device *device)
{
	return !is_leaf(device) && !device->is_partition;
}

bool indexes_have(const struct indexes *list, int index)
{
	for (int i = 0; i < list->count; i++)
		if (list->at[i] == index)
			return true;
	return false;
}

void indexes_add(struct indexes *list, int index)
{
	if (indexes_have(list, index))
		return;
	if (list->count == list->room) {
		int room = list->room ? list->room * 2 : 8;
		int *more = realloc(list->at, room * sizeof(*more));

		if (!more) {
			perror("recorder: devices");
			exit(1);
		}
		list->at = more;
		list->room = room;
	}
	list->at[list->count++] = index;
}

void indexes_free(struct indexes *list)
{
	free(list->at);
	memset(list, 0, sizeof(*list));
}

static struct indexes walk(const struct devices *all, int from, bool up, bool through_loops)
{
	struct indexes found = { 0 };

	for (int next = -1; next < found.count; next++) {
		const struct device *device = &all->at[next < 0 ? from : found.at[next]];
		const struct indexes *others = up ? &device->above : &device->below;

		if (!up && !through_loops && !strcmp(device->kind, "loop"))
			continue;
		for (int i = 0; i < others->count; i++)
			if (others->at[i] != from &&
			    (through_loops || !up ||
			     strcmp(all->at[others->at[i]].kind, "loop") != 0))
				indexes_add(&found, others->at[i]);
	}
	return found;
}

struct indexes devices_below(const struct devices *all, int index, bool through_loops)
{
	return walk(all, index, false, through_loops);
}

struct indexes devices_above(const struct devices *all, int index, bool through_loops)
{
	return walk(all, index, true, through_loops);
}
