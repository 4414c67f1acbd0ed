// SPDX-License-Identifier: BSD-2-Clause
/* alone.json; see facts.h. */
#include "facts.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alone/disk_facts.h"
#include "alone/version.h"
#include "recorder/jsonl.h"
#include "recorder/options.h"
#include "recorder/registry.h"
#include "recorder/room.h"

#define SECTOR_BYTES 512ULL

void facts_warn(struct facts *facts, const char *format, ...)
{
	va_list args;

	if (facts->warning_count == MOST_WARNINGS)
		return;
	va_start(args, format);
	vsnprintf(facts->warnings[facts->warning_count], sizeof(facts->warnings[0]), format, args);
	va_end(args);
	fprintf(stderr, "recorder: warning: %s\n", facts->warnings[facts->warning_count++]);
}

void counters_read(const struct facts *facts, struct counters *counters)
{
	int count = facts->layers.names.count;
	char path[PATH_MOST], text[512];

	counters->fields = calloc(count, sizeof(*counters->fields));
	counters->is_known = calloc(count, sizeof(*counters->is_known));
	for (int i = 0; counters->fields && counters->is_known && i < count; i++) {
		const char *name = facts->devices.at[facts->layers.names.at[i]].name;
		char *at = text;
		int got = 0;

		if (!path_of(path, "/sys/class/block/%s/stat", name) ||
		    !text_of(text, sizeof(text), path))
			continue;
		for (char *next; got < 14; got++, at = next) {
			counters->fields[i][got] = strtoull(at, &next, 10);
			if (next == at)
				break;
		}
		/* Discards, the last fields, exist since Linux 4.18. */
		counters->is_known[i] = got > 6;
	}
}

static void write_counters(FILE *out, const struct facts *facts, const char *key,
			   const struct counters *counters)
{
	const char *separator = "";

	fprintf(out, ",\"%s\":{", key);
	for (int i = 0; counters->fields && i < facts->layers.names.count; i++) {
		const unsigned long long *fields = counters->fields[i];

		if (!counters->is_known[i])
			continue;
		fputs(separator, out);
		separator = ",";
		json_string(out, facts->devices.at[facts->layers.names.at[i]].name);
		fprintf(out,
			":{\"read_bytes\":%llu,\"write_bytes\":%llu,\"discard_bytes\":%llu,"
			"\"read_requests\":%llu,\"write_requests\":%llu}",
			fields[2] * SECTOR_BYTES, fields[6] * SECTOR_BYTES,
			fields[13] * SECTOR_BYTES, fields[0], fields[4]);
	}
	fputc('}', out);
}

static void write_facts(FILE *out, const struct device *device, bool states)
{
	const char *separator = "";

	for (int i = 0; i < device->fact_count; i++) {
		const struct fact *fact = &device->facts[i];

		if (states && !fact->is_state)
			continue;
		fprintf(out, "%s\"%s\":", separator, fact->key);
		separator = ",";
		if (fact->is_number)
			fputs(fact->text, out);
		else
			json_string(out, fact->text);
	}
	if (!states && device->fact_count)
		fputc(',', out);
}

static void write_node(FILE *out, const struct facts *facts, int index)
{
	const struct device *device = &facts->devices.at[index];
	const char *why_not = layers_why_not(&facts->layers, index);
	char dev[32];

	layers_number(&facts->devices, &facts->layers, index, dev);
	fputc('{', out);
	write_facts(out, device, false);
	if (is_leaf(device)) {
		disk_facts_write(out, device);
		fputc(',', out);
	}
	fputs("\"name\":", out);
	json_string(out, device->name);
	fprintf(out, ",\"dev\":\"%s\",\"kind\":\"%s\",\"label\":", dev, device->kind);
	json_string(out, device->label);
	fprintf(out, ",\"size_bytes\":%llu,\"recorded\":\"%s\",\"why_not\":\"%s\",\"below\":[",
		(unsigned long long)device->sectors * SECTOR_BYTES,
		why_not[0]	  ? "no"
		: is_leaf(device) ? "requests"
				  : "bios",
		why_not);
	for (int i = 0; i < device->below.count; i++) {
		fputs(i ? "," : "", out);
		json_string(out, facts->devices.at[device->below.at[i]].name);
	}
	fputc(']', out);
	if (indexes_have(&facts->layers.neighbours, index))
		fputs(",\"neighbour\":true", out);
	fputc('}', out);
}

/* A partition's extent on its disk; of a whole device its size. */
static void write_part(FILE *out, const struct facts *facts, int index)
{
	const struct device *device = &facts->devices.at[index];

	fputs("{\"name\":", out);
	json_string(out, device->name);
	fprintf(out, ",\"dev\":\"%s\",\"disk\":", device->dev);
	json_string(out, facts->devices.at[device->disk].name);
	fprintf(out, ",\"first_sector\":%llu,\"sectors\":%llu}",
		(unsigned long long)device->first_sector, (unsigned long long)device->sectors);
}

/* The partitions between the devices. */
static void write_parts(FILE *out, const struct facts *facts)
{
	const struct indexes *names = &facts->layers.names;
	const char *separator = "";

	fputs(",\"parts\":[", out);
	for (int i = 0; i < facts->devices.count; i++) {
		const struct device *device = &facts->devices.at[i];
		bool is_between = device->is_partition && indexes_have(names, device->disk);
		bool is_used = false;

		for (int j = 0; is_between && j < device->above.count; j++)
			is_used = is_used || indexes_have(names, device->above.at[j]);
		if (!is_used)
			continue;
		fputs(separator, out);
		separator = ",";
		write_part(out, facts, i);
	}
	fputc(']', out);
}

/* State, size and parts of each device when recording began, or when it ended. */
static void write_states(FILE *out, const struct facts *facts, const char *key,
			 const struct devices *devices)
{
	const struct indexes *names = &facts->layers.names;
	const char *separator = "";

	fprintf(out, ",\"%s\":{", key);
	for (int i = 0; i < names->count; i++) {
		int now = device_named(devices, facts->devices.at[names->at[i]].name);

		if (now < 0)
			continue;
		fputs(separator, out);
		separator = ",";
		json_string(out, devices->at[now].name);
		fprintf(out, ":{\"sectors\":%llu,\"below\":[",
			(unsigned long long)devices->at[now].sectors);
		for (int j = 0; j < devices->at[now].below.count; j++) {
			fputs(j ? "," : "", out);
			json_string(out, devices->at[devices->at[now].below.at[j]].name);
		}
		fputs("],\"state\":{", out);
		write_facts(out, &devices->at[now], true);
		fputs("}}", out);
	}
	fputc('}', out);
}

static void write_stack(FILE *out, const struct facts *facts)
{
	const struct layers *layers = &facts->layers;
	char dev[32];

	fputs(",\"stack\":{\"roots\":[", out);
	for (int i = 0; i < layers->roots.count; i++) {
		layers_number(&facts->devices, layers, layers->roots.at[i], dev);
		fprintf(out, "%s{\"name\":", i ? "," : "");
		json_string(out, facts->devices.at[layers->roots.at[i]].name);
		fprintf(out, ",\"dev\":\"%s\",\"role\":\"watched\"}", dev);
	}
	fputs("],\"nodes\":[", out);
	for (int i = 0; i < layers->names.count; i++) {
		fputs(i ? "," : "", out);
		write_node(out, facts, layers->names.at[i]);
	}
	fputc(']', out);
	write_parts(out, facts);
	write_counters(out, facts, "at_start", &facts->start);
	write_counters(out, facts, "at_end", &facts->end);
	write_states(out, facts, "states_at_start", &facts->devices);
	write_states(out, facts, "states_at_end", &facts->devices_after);
	fputc('}', out);
}

static void write_device(FILE *out, const struct facts *facts)
{
	int disk = facts->devices.at[facts->watched].disk;
	const struct device *device = &facts->devices.at[disk];

	fputs(",\"device\":{\"name\":", out);
	json_string(out, device->name);
	fprintf(out, ",\"dev\":\"%s\",\"size_bytes\":%llu,\"parts\":[", device->dev,
		(unsigned long long)device->sectors * SECTOR_BYTES);
	write_part(out, facts, facts->watched);
	fputs("],", out);
	disk_facts_write(out, device);
	fputc('}', out);
}

void facts_read_journals(struct facts *facts)
{
	const struct mounted *mounted = facts->mounted.at;

	facts->journals = calloc(facts->mounted.count + 1, sizeof(*facts->journals));
	for (int i = 0; facts->journals && i < facts->mounted.count && i < MOST_MOUNTS; i++)
		if (!mounted[i].is_overlay)
			facts->journals[i].count =
				journal_read(&facts->devices.at[mounted[i].device],
					     mounted[i].mount.kind, facts->journals[i].extents);
}

static void write_journal(FILE *out, const struct facts *facts, int index, const char **separator)
{
	const struct device *device = &facts->devices.at[facts->mounted.at[index].device];
	const struct journal_place *place = &facts->journals[index];

	if (!place->count)
		return;
	fprintf(out, "%s{\"device\":", *separator);
	*separator = ",";
	json_string(out, device->name);
	fprintf(out, ",\"dev\":\"%s\",\"extents\":%s", facts->devices.at[device->disk].dev,
		place->count < 0 ? "null}" : "[");
	for (int i = 0; i < place->count; i++)
		fprintf(out, "%s[%llu,%llu]%s", i ? "," : "",
			(unsigned long long)(device->first_sector + place->extents[i].start),
			(unsigned long long)(device->first_sector + place->extents[i].end),
			i == place->count - 1 ? "]}" : "");
}

static void write_filesystems(FILE *out, const struct facts *facts)
{
	const char *separator = "";
	int count = facts->mounted.count < MOST_MOUNTS ? facts->mounted.count : MOST_MOUNTS;

	fputs(",\"mounts\":[", out);
	for (int i = 0; i < count; i++) {
		const struct mounted *mounted = &facts->mounted.at[i];

		fprintf(out, "%s{\"name\":", i ? "," : "");
		json_string(out, mounted->mount.kind);
		fputs(",\"mount_point\":", out);
		json_string(out, mounted->mount.target);
		fprintf(out, ",\"dev\":\"%s\",\"device\":", mounted->mount.dev);
		json_string(out, facts->devices.at[mounted->device].name);
		fputc('}', out);
	}
	fputs("],\"journals\":[", out);
	for (int i = 0; facts->journals && i < count; i++)
		write_journal(out, facts, i, &separator);
	fputc(']', out);
}

/* Names of the collectors that record, or that are off with a reason in losses.json. */
static void write_collectors(FILE *out)
{
	const struct collector_ops *ops;
	const char *separator = "";

	fputs(",\"collect\":[", out);
	for_each_collector(ops)
	{
		if (!ops->state->wanted)
			continue;
		fprintf(out, "%s\"%s\"", separator, ops->name);
		separator = ",";
	}
	fputc(']', out);
}

static void write_all(FILE *out, const struct facts *facts, const struct options *options,
		      int dir_fd)
{
	fprintf(out, "{\"schema\":%d,\"recorder\":\"%s\",\"state\":\"%s\",\"ended\":", ALONE_SCHEMA,
		recorder_version, facts->state);
	if (facts->ended)
		json_string(out, facts->ended);
	else
		fputs("null", out);
	fputs(",\"dev\":", out);
	json_string(out, facts->given);
	fprintf(out,
		",\"secs\":%.9g,\"max_bytes\":%llu,\"clock\":{\"realtime_offset_ns\":%lld,"
		"\"record_start_ns\":%llu,\"record_end_ns\":%llu},%s",
		(double)options->record_ns / 1e9, (unsigned long long)options->room_bytes,
		(long long)facts->realtime_offset_ns, (unsigned long long)facts->start_ns,
		(unsigned long long)facts->end_ns, facts->machine);
	write_collectors(out);
	write_device(out, facts);
	write_stack(out, facts);
	write_filesystems(out, facts);
	own_files_write(out, dir_fd);
	fputs(",\"warnings\":[", out);
	for (int i = 0; i < facts->warning_count; i++) {
		fputs(i ? "," : "", out);
		json_string(out, facts->warnings[i]);
	}
	fputs("]}\n", out);
}

int facts_write(const struct facts *facts, const struct options *options, int dir_fd)
{
	int fd = new_file(dir_fd, ".alone.json.new");
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (!out) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	write_all(out, facts, options, dir_fd);
	if (fclose(out) || renameat(dir_fd, ".alone.json.new", dir_fd, "alone.json")) {
		unlinkat(dir_fd, ".alone.json.new", 0);
		return -1;
	}
	return 0;
}
