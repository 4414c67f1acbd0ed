// SPDX-License-Identifier: BSD-2-Clause
/* Kind, facts and label of a whole block device: the same as workloads/system/device_facts.py gives. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "alone/devices.h"
#include "alone/dm_targets.h"

static void add_fact(struct device *device, const char *key, const char *text, bool is_number,
		     bool is_state)
{
	struct fact *fact = &device->facts[device->fact_count];

	if (!text[0] || device->fact_count == MOST_FACTS)
		return;
	fact->key = key;
	snprintf(fact->text, sizeof(fact->text), "%s", text);
	fact->is_number = is_number;
	fact->is_state = is_state;
	device->fact_count++;
}

static const char *fact_of(const struct device *device, const char *key)
{
	for (int i = 0; i < device->fact_count; i++)
		if (!strcmp(device->facts[i].key, key))
			return device->facts[i].text;
	return "";
}

static void add_text(struct device *device, const char *key, const char *file, bool is_state)
{
	char path[PATH_MOST], text[TEXT_MOST];

	if (path_of(path, "%s/%s", device->place, file) && text_of(text, sizeof(text), path))
		add_fact(device, key, text, false, is_state);
}

static void add_number(struct device *device, const char *key, const char *file, bool is_state)
{
	char path[PATH_MOST], text[32];

	if (!path_of(path, "%s/%s", device->place, file) || !exists(path))
		return;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)number_of(path));
	add_fact(device, key, text, true, is_state);
}

/* Does the name begin so, followed by a digit or "_" alone? */
static bool is_called(const char *name, const char *prefix)
{
	size_t bytes = strlen(prefix);

	return !strncmp(name, prefix, bytes) && (isdigit(name[bytes]) || name[bytes] == '_');
}

static const char *kind_by_name(const struct device *device)
{
	static const char *const called[][2] = { { "dm-", "dm" },
						 { "md", "md" },
						 { "zram", "zram" },
						 { "loop", "loop" },
						 { "bcache", "bcache" } };
	unsigned int number;
	int end = 0;

	if (sscanf(device->name, "nvme%uc%un%u%n", &number, &number, &number, &end) == 3 &&
	    !device->name[end])
		return "nvme-path";
	end = 0;
	if (!device->has_queue &&
	    sscanf(device->name, "nvme%un%u%n", &number, &number, &end) == 2 && !device->name[end])
		return "nvme-head";
	for (unsigned int i = 0; i < sizeof(called) / sizeof(called[0]); i++)
		if (is_called(device->name, called[i][0]))
			return called[i][1];
	return device->has_queue ? "disk" : "other";
}

struct members {
	struct device *device;
	char text[TEXT_MOST];
};

/* An array's members with their states: "sda1:in_sync sdb1:faulty". */
static void add_member(void *about, const char *name)
{
	struct members *members = about;
	char path[PATH_MOST], state[TEXT_MOST];
	size_t bytes = strlen(members->text);

	if (strncmp(name, "dev-", 4) != 0)
		return;
	if (!path_of(path, "%s/md/%s/state", members->device->place, name) ||
	    !text_of(state, sizeof(state), path))
		strcpy(state, "unknown");
	snprintf(members->text + bytes, sizeof(members->text) - bytes, "%s%s:%s", bytes ? " " : "",
		 name + 4, state);
}

static void add_array(struct device *device)
{
	struct members members = { .device = device };
	char path[PATH_MOST];

	add_text(device, "level", "md/level", false);
	add_text(device, "array_state", "md/array_state", true);
	add_text(device, "sync_action", "md/sync_action", true);
	add_text(device, "metadata_version", "md/metadata_version", false);
	if (path_of(path, "%s/md", device->place))
		names_in(path, add_member, &members);
	add_fact(device, "members", members.text, false, true);
	add_number(device, "degraded", "md/degraded", true);
	add_number(device, "raid_disks", "md/raid_disks", false);
	add_number(device, "chunk_bytes", "md/chunk_size", false);
}

static void add_volume(struct device *device)
{
	char path[PATH_MOST], targets[TEXT_MOST];

	add_text(device, "dm_name", "dm/name", false);
	add_text(device, "dm_uuid", "dm/uuid", false);
	if (path_of(path, "%s/dm/suspended", device->place) && number_of(path))
		add_number(device, "suspended", "dm/suspended", true);
	dm_targets(device->dev, targets);
	add_fact(device, "targets", targets, false, false);
}

/* The kind of a device-mapper volume: by its targets, else by its uuid. */
static const char *kind_of_volume(const struct device *device)
{
	static const char *const of_target[][2] = {
		{ "crypt", "crypt" },
		{ "thin", "thin" },
		{ "thin-pool", "thin" },
		{ "cache", "cache" },
		{ "writecache", "writecache" },
		{ "snapshot", "snapshot" },
		{ "snapshot-origin", "snapshot" },
		{ "snapshot-merge", "snapshot" },
		{ "multipath", "multipath" },
	};
	const char *uuid = fact_of(device, "dm_uuid"), *end = uuid + strlen(uuid);
	char targets[TEXT_MOST], *rest = targets, *target;

	strcpy(targets, fact_of(device, "targets"));
	while ((target = strsep(&rest, " ")))
		for (unsigned int i = 0; i < sizeof(of_target) / sizeof(of_target[0]); i++)
			if (!strcmp(target, of_target[i][0]))
				return of_target[i][1];
	if (!strncmp(uuid, "CRYPT-", 6))
		return "crypt";
	if (!strncmp(uuid, "mpath-", 6))
		return "multipath";
	if (strncmp(uuid, "LVM-", 4) != 0)
		return "dm";
	if (end - uuid > 6 && !strcmp(end - 6, "-tpool"))
		return "thin";
	return end - uuid > 4 && !strcmp(end - 4, "-cow") ? "snapshot" : "lvm";
}

/* LVM's name of a volume, where each "-" of a person's is doubled: "vg--0-root" is vg-0/root. False: no such name. */
static bool lvm_label(char *label, size_t room, const char *name)
{
	size_t bytes = snprintf(label, room, "/dev/");
	int parts = 1;

	for (; *name && bytes < room - 1; name++) {
		if (name[0] == '-' && name[1] == '-')
			name++;
		else if (name[0] == '-' && ++parts) {
			label[bytes++] = '/';
			continue;
		}
		label[bytes++] = *name;
	}
	label[bytes] = 0;
	return parts == 2;
}

static void set_label(struct device *device)
{
	const char *dm_name = fact_of(device, "dm_name");
	bool is_lvm = !strncmp(fact_of(device, "dm_uuid"), "LVM-", 4);
	const char *in_dev =
		!strcmp(device->kind, "md") || !strcmp(device->kind, "bcache") ? "/dev/" : "";

	if (dm_name[0]) {
		if (!is_lvm || !lvm_label(device->label, sizeof(device->label), dm_name))
			snprintf(device->label, sizeof(device->label), "/dev/mapper/%s", dm_name);
		return;
	}
	snprintf(device->label, sizeof(device->label), "%s%s", in_dev, device->name);
	for (char *c = device->label; *c; c++)
		if (*c == '!')
			*c = '/';
}

void describe_device(struct device *device)
{
	device->kind = device->is_partition ? "partition" : kind_by_name(device);
	if (!strcmp(device->kind, "dm")) {
		add_volume(device);
		device->kind = kind_of_volume(device);
	} else if (!strcmp(device->kind, "md")) {
		add_array(device);
	} else if (!strcmp(device->kind, "loop")) {
		add_text(device, "backing_file", "loop/backing_file", false);
		add_number(device, "direct_io", "loop/dio", false);
	} else if (!strcmp(device->kind, "zram")) {
		add_text(device, "backing_device", "backing_dev", false);
	} else if (!strcmp(device->kind, "bcache")) {
		add_text(device, "state", "bcache/state", true);
		add_text(device, "cache_mode", "bcache/cache_mode", false);
	} else if (!strcmp(device->kind, "nvme-path")) {
		add_text(device, "state", "device/state", true);
		add_text(device, "transport", "device/transport", false);
		add_text(device, "address", "device/address", false);
		add_text(device, "ana_state", "ana_state", true);
	}
	set_label(device);
}
