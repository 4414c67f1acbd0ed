// SPDX-License-Identifier: BSD-2-Clause
#include "devices.h"

#include <stdlib.h>
#include <string.h>

int devices_init(struct devices *devices)
{
	memset(devices, 0, sizeof(*devices));
	devices->table = calloc(MAX_DEVICES, sizeof(*devices->table));
	return devices->table ? 0 : -1;
}

void devices_free(struct devices *devices)
{
	for (size_t i = 0; devices->table && i < devices->count; i++)
		free(devices->table[i].sequences);
	free(devices->table);
}

struct device *devices_find(struct devices *devices, uint32_t number)
{
	if (devices->last && devices->last->number == number)
		return devices->last;
	for (size_t i = 0; i < devices->count; i++)
		if (devices->table[i].number == number)
			return devices->last = &devices->table[i];
	if (devices->count == MAX_DEVICES)
		return NULL;
	devices->last = &devices->table[devices->count++];
	devices->last->number = number;
	return devices->last;
}

int devices_number(struct device *device, const struct event *event)
{
	struct sequence *sequence;

	if (!event->sequence || event->cpu >= MAX_CPUS)
		return 0;
	if (event->cpu >= device->cpus) {
		uint32_t cpus = event->cpu + 1;

		sequence = realloc(device->sequences, cpus * sizeof(*sequence));
		if (!sequence)
			return -1;
		memset(sequence + device->cpus, 0, (cpus - device->cpus) * sizeof(*sequence));
		device->sequences = sequence;
		device->cpus = cpus;
	}
	sequence = &device->sequences[event->cpu];
	if (!sequence->least || event->sequence < sequence->least)
		sequence->least = event->sequence;
	if (event->sequence > sequence->most)
		sequence->most = event->sequence;
	sequence->count++;
	return 0;
}

uint64_t devices_missing(const struct devices *devices)
{
	uint64_t missing = 0;

	for (size_t i = 0; i < devices->count; i++) {
		const struct device *device = &devices->table[i];

		for (uint32_t cpu = 0; cpu < device->cpus; cpu++) {
			const struct sequence *sequence = &device->sequences[cpu];
			uint64_t span = (uint64_t)sequence->most - sequence->least + 1;

			if (sequence->least && span > sequence->count)
				missing += span - sequence->count;
		}
	}
	return missing;
}

void devices_remap(struct devices *devices, uint32_t from, uint32_t to)
{
	struct remap *remap = devices->remaps;
	size_t i = 0;

	while (i < devices->remap_count && (remap[i].from != from || remap[i].to != to))
		i++;
	if (i == MAX_REMAPS)
		return; /* they are named in a warning; so many are enough */
	if (i == devices->remap_count)
		remap[devices->remap_count++] = (struct remap){ .from = from, .to = to };
	remap[i].count++;
}
