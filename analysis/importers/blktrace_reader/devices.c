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

struct device *devices_known(struct devices *devices, uint32_t number)
{
	for (size_t i = 0; i < devices->count; i++)
		if (devices->table[i].number == number)
			return &devices->table[i];
	return NULL;
}

struct device *devices_find(struct devices *devices, uint32_t number)
{
	struct device *known;

	if (devices->last && devices->last->number == number)
		return devices->last;
	known = devices_known(devices, number);
	if (known)
		return devices->last = known;
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

struct remap *devices_find_remap(struct devices *devices, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < devices->remap_count; i++)
		if (devices->remaps[i].from == from && devices->remaps[i].to == to)
			return &devices->remaps[i];
	return NULL;
}

void devices_remap(struct devices *devices, uint32_t from, uint64_t from_sector, uint32_t to,
		   uint64_t to_sector)
{
	struct remap *remap = devices_find_remap(devices, from, to);

	if (!remap) {
		if (devices->remap_count == MAX_REMAPS)
			return; /* they are for the tree of devices; so many are enough */
		remap = &devices->remaps[devices->remap_count++];
		*remap = (struct remap){
			.from = from,
			.to = to,
			.is_linear = true,
			.first_sector = to_sector - from_sector,
		};
	}
	if (remap->first_sector != to_sector - from_sector)
		remap->is_linear = false;
	remap->count++;
}
