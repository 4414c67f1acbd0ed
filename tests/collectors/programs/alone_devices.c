// SPDX-License-Identifier: BSD-2-Clause
/*
 * alone_devices ROOT NAME: prints what the recorder alone would record of a device in a fake sysfs, a line a device.
 *
 * ROOT becomes the root directory, so root runs it.
 */
#include <stdio.h>
#include <unistd.h>

#include "alone/devices.h"
#include "alone/layers.h"

static void print_device(const struct devices *all, const struct layers *layers, int index)
{
	const struct device *device = &all->at[index];
	char dev[32];

	layers_number(all, layers, index, dev);
	printf("%s\t%s\t%s\t%s\t%s\t%llu\t%d\t%d\t", device->name, dev, device->kind, device->label,
	       is_leaf(device) ? "leaf" : "volume", (unsigned long long)device->sectors,
	       layers_why_not(layers, index)[0] == 0, indexes_have(&layers->neighbours, index));
	for (int i = 0; i < device->below.count; i++)
		printf("%s%s", i ? "," : "", all->at[device->below.at[i]].name);
	for (int i = 0; i < device->fact_count; i++)
		printf("\t%s=%s", device->facts[i].key, device->facts[i].text);
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct devices all;
	struct layers layers;
	int watched;

	if (argc != 3 || chroot(argv[1]) || chdir("/")) {
		perror("alone_devices");
		return 1;
	}
	devices_read(&all);
	watched = device_named(&all, argv[2]);
	if (watched < 0)
		return 2;
	layers_choose(&all, all.at[watched].disk, &layers);
	for (int i = 0; i < layers.roots.count; i++)
		printf("root\t%s\n", all.at[layers.roots.at[i]].name);
	for (int i = 0; i < layers.names.count; i++)
		print_device(&all, &layers, layers.names.at[i]);
	layers_free(&layers);
	devices_free(&all);
	return 0;
}
