// SPDX-License-Identifier: BSD-2-Clause
/* Which devices are recorded of a watched one; see layers.h. */
#include "layers.h"

#include <stdio.h>
#include <string.h>

#include "recorder/disks.h"
#include "recorder/options.h"

/* Adds those of the list that are whole devices. */
static void add_whole(const struct devices *all, struct indexes *to, const struct indexes *list)
{
	for (int i = 0; i < list->count; i++)
		if (!all->at[list->at[i]].is_partition)
			indexes_add(to, list->at[i]);
}

static bool has_target(const struct device *device, const char *wanted)
{
	char padded[TEXT_MOST + 2], word[32];

	snprintf(word, sizeof(word), " %s ", wanted);
	for (int i = 0; i < device->fact_count; i++) {
		if (strcmp(device->facts[i].key, "targets") != 0)
			continue;
		snprintf(padded, sizeof(padded), " %s ", device->facts[i].text);
		return strstr(padded, word) != NULL;
	}
	return false;
}

/* The volumes on a device or its partitions, nearest first. */
static struct indexes volumes_above(const struct devices *all, int index)
{
	struct indexes above = devices_above(all, index, false), volumes = { 0 };

	for (int i = 0; i < above.count; i++)
		if (is_volume(&all->at[above.at[i]]))
			indexes_add(&volumes, above.at[i]);
	indexes_free(&above);
	return volumes;
}

static void choose_roots(const struct devices *all, int watched, struct indexes *roots)
{
	struct indexes volumes = volumes_above(all, watched);

	indexes_add(roots, watched);
	for (int i = 0; i < volumes.count; i++) {
		struct indexes higher = volumes_above(all, volumes.at[i]);

		if (!higher.count)
			indexes_add(roots, volumes.at[i]);
		indexes_free(&higher);
	}
	indexes_free(&volumes);
}

/* Adds a device and what its I/O reaches below it. */
static void add_layers(const struct devices *all, struct indexes *to, int index, bool itself)
{
	struct indexes below = devices_below(all, index, false);

	if (itself && !all->at[index].is_partition)
		indexes_add(to, index);
	add_whole(all, to, &below);
	indexes_free(&below);
}

/*
 * Adds what the snapshots of these volumes are stored on: the first overwrite of a block copies the old content there,
 * and sysfs has the store below the snapshot alone.
 */
static void add_stores(const struct devices *all, struct indexes *reached)
{
	int count = reached->count;

	for (int i = 0; i < count; i++) {
		const struct device *origin = &all->at[reached->at[i]];

		for (int j = 0; has_target(origin, "snapshot-origin") && j < origin->below.count;
		     j++) {
			const struct indexes *above = &all->at[origin->below.at[j]].above;

			for (int k = 0; k < above->count; k++)
				if (has_target(&all->at[above->at[k]], "snapshot"))
					add_layers(all, reached, above->at[k], false);
		}
	}
}

static void choose_neighbours(const struct devices *all, const struct indexes *reached,
			      struct indexes *neighbours)
{
	for (int i = 0; i < reached->count; i++) {
		const struct device *volume = &all->at[reached->at[i]];

		for (int j = 0; is_volume(volume) && j < volume->below.count; j++) {
			struct indexes others = volumes_above(all, volume->below.at[j]);

			for (int k = 0; k < others.count; k++)
				if (!indexes_have(reached, others.at[k]))
					indexes_add(neighbours, others.at[k]);
			indexes_free(&others);
		}
	}
}

/* What fits into the recorder: the roots first, then the disks, then volumes between, then neighbours. */
static void choose_recorded(const struct devices *all, struct layers *layers,
			    const struct indexes *reached)
{
	struct indexes order = { 0 };

	for (int i = 0; i < reached->count; i++)
		if (indexes_have(&layers->roots, reached->at[i]))
			indexes_add(&order, reached->at[i]);
	for (int i = 0; i < reached->count; i++)
		if (is_leaf(&all->at[reached->at[i]]))
			indexes_add(&order, reached->at[i]);
	add_whole(all, &order, reached);
	add_whole(all, &order, &layers->neighbours);
	for (int i = 0; i < order.count && i < MAX_DEVS; i++)
		indexes_add(&layers->recorded, order.at[i]);
	indexes_free(&order);
}

void layers_choose(const struct devices *all, int watched, struct layers *layers)
{
	struct indexes reached = { 0 };

	memset(layers, 0, sizeof(*layers));
	choose_roots(all, watched, &layers->roots);
	for (int i = 0; i < layers->roots.count; i++)
		add_layers(all, &reached, layers->roots.at[i], true);
	add_stores(all, &reached);
	choose_neighbours(all, &reached, &layers->neighbours);
	choose_recorded(all, layers, &reached);
	add_whole(all, &layers->names, &reached);
	add_whole(all, &layers->names, &layers->neighbours);
	for (int i = 0; i < layers->roots.count; i++) {
		struct indexes below = devices_below(all, layers->roots.at[i], true);

		for (int j = 0; j < below.count; j++)
			if (!all->at[below.at[j]].is_partition &&
			    !indexes_have(&reached, below.at[j]))
				indexes_add(&layers->below_loops, below.at[j]);
		indexes_free(&below);
	}
	add_whole(all, &layers->names, &layers->below_loops);
	indexes_free(&reached);
}

void layers_free(struct layers *layers)
{
	indexes_free(&layers->roots);
	indexes_free(&layers->names);
	indexes_free(&layers->recorded);
	indexes_free(&layers->neighbours);
	indexes_free(&layers->below_loops);
}

void layers_number(const struct devices *all, const struct layers *layers, int index, char dev[32])
{
	int hidden = 0;

	if (all->at[index].dev[0]) {
		snprintf(dev, 32, "%s", all->at[index].dev);
		return;
	}
	for (int i = 0; i < layers->names.count && layers->names.at[i] != index; i++)
		hidden += !all->at[layers->names.at[i]].dev[0];
	snprintf(dev, 32, "%d:%d", HIDDEN_MAJOR, hidden);
}

const char *layers_why_not(const struct layers *layers, int index)
{
	if (indexes_have(&layers->below_loops, index))
		return "below a loop device";
	return indexes_have(&layers->recorded, index) ? "" : "the recorder takes no more devices";
}

static bool has_component(const struct options *options, const char *dev)
{
	unsigned int major, minor;

	if (sscanf(dev, "%u:%u", &major, &minor) != 2)
		return false;
	for (int i = 0; i < options->component_count; i++)
		if (options->components[i] == (major << 20 | minor))
			return true;
	return false;
}

static int add_components(const struct devices *all, const struct device *volume,
			  struct options *options)
{
	for (int i = 0; i < volume->below.count; i++) {
		const char *dev = all->at[volume->below.at[i]].dev;

		if (dev[0] && !has_component(options, dev) &&
		    options->component_count < MAX_COMPONENTS && disks_add_component(options, dev))
			return -1;
	}
	return 0;
}

static int add_leaf(const struct devices *all, const struct layers *layers, int index,
		    struct options *options)
{
	char dev[32], text[NAME_MOST + 40];

	if (all->at[index].dev[0])
		return disks_add(options, all->at[index].name);
	layers_number(all, layers, index, dev);
	snprintf(text, sizeof(text), "%s=%s", dev, all->at[index].name);
	return disks_add_hidden(options, text);
}

int layers_to_options(const struct devices *all, const struct layers *layers,
		      struct options *options)
{
	const struct indexes *names = &layers->names;

	for (int i = 0; i < names->count; i++)
		if (indexes_have(&layers->recorded, names->at[i]) &&
		    is_leaf(&all->at[names->at[i]]) && add_leaf(all, layers, names->at[i], options))
			return -1;
	for (int i = 0; i < names->count; i++) {
		const struct device *device = &all->at[names->at[i]];

		if (!indexes_have(&layers->recorded, names->at[i])) {
			if (device->dev[0] && options->counted_count < MAX_DEVS &&
			    disks_add_counted(options, device->name))
				return -1;
		} else if (is_volume(device) && (disks_add_volume(options, device->name) ||
						 add_components(all, device, options))) {
			return -1;
		}
	}
	return 0;
}
