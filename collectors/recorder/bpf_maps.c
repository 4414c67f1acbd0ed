// SPDX-License-Identifier: BSD-2-Clause
/* BPF maps, read by the recorder; see bpf_maps.h. */
#include "bpf_maps.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_ENTRIES (1UL << 20)

size_t map_bytes(size_t entry_bytes, size_t entries)
{
	size_t page = sysconf(_SC_PAGESIZE);

	return (entry_bytes * entries + page - 1) / page * page;
}

void *map_memory(const struct bpf_map *map, size_t bytes, int access)
{
	void *memory = mmap(NULL, bytes, access, MAP_SHARED, bpf_map__fd(map), 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void unmap_memory(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, bytes);
}

bool map_sum_cpus(const struct bpf_map *map, int cpus, void *sum, size_t bytes)
{
	uint64_t *of_cpus = calloc(cpus, bytes), *total = sum;
	size_t members = bytes / sizeof(*total);
	uint32_t zero = 0;
	bool ok = of_cpus && bpf_map_lookup_elem(bpf_map__fd(map), &zero, of_cpus) == 0;

	memset(sum, 0, bytes);
	for (int cpu = 0; ok && cpu < cpus; cpu++)
		for (size_t i = 0; i < members; i++)
			total[i] += of_cpus[cpu * members + i];
	free(of_cpus);
	return ok;
}

uint32_t map_entries(const char *variable, uint32_t usual)
{
	const char *text = getenv(variable);
	unsigned long entries = text ? strtoul(text, NULL, 10) : 0;

	return entries && entries <= MOST_ENTRIES ? entries : usual;
}

int map_create_slots(const struct bpf_map *array, const struct slot_shape *shape, int *fds)
{
	for (uint32_t i = 0; i < bpf_map__max_entries(array); i++) {
		int fd = bpf_map_create(shape->type, bpf_map__name(array), shape->key_bytes,
					shape->value_bytes, shape->entries, NULL);

		if (fd < 0)
			return -1;
		fds[i] = fd;
		if (bpf_map_update_elem(bpf_map__fd(array), &i, &fd, BPF_ANY))
			return -1;
	}
	return 0;
}

void map_close_slots(int *fds, int slots)
{
	for (int i = 0; i < slots; i++) {
		if (fds[i])
			close(fds[i]);
		fds[i] = 0;
	}
}
