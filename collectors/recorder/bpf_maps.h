/* SPDX-License-Identifier: BSD-2-Clause */
/* BPF maps, read by the recorder: mapped into memory, summed over CPUs; and how large they are made. */
#ifndef SEEKMETER_BPF_MAPS_H
#define SEEKMETER_BPF_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_map;

/* Bytes of a mappable array map, in whole pages. */
size_t map_bytes(size_t entry_bytes, size_t entries);
/* The map's memory, of map_bytes() bytes; access: as in mmap(2). NULL on failure, with errno set. */
void *map_memory(const struct bpf_map *map, size_t bytes, int access);
void unmap_memory(void *memory, size_t bytes);

/*
 * Sums entry 0 of a BPF_MAP_TYPE_PERCPU_ARRAY over CPUs. The entry, and *sum, is a struct of u64 members only.
 * False: the map can't be read, and *sum is zero.
 */
bool map_sum_cpus(const struct bpf_map *map, int cpus, void *sum, size_t bytes);

/*
 * Entries of a hash map: `usual`, or the number in the environment variable. That is for machines short of memory,
 * and for tests of a full map.
 */
uint32_t map_entries(const char *variable, uint32_t usual);

/* The maps of BIN_MAPS() (bpf/common/bin_maps.h): type, key and value as there. */
struct slot_shape {
	int type; /* BPF_MAP_TYPE_… */
	uint32_t key_bytes, value_bytes, entries;
};

/*
 * Creates a map of this shape for each slot of the array, and puts the map into the slot. fds: the maps by slot, 0 where
 * there is none; map_close_slots() closes them, after a failure too. 0; or -1 with errno set.
 */
int map_create_slots(const struct bpf_map *array, const struct slot_shape *shape, int *fds);
void map_close_slots(int *fds, int slots);

#endif
