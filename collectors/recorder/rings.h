/* SPDX-License-Identifier: BSD-2-Clause */
/* The rings of finished records that the BPF programs fill (bpf/common/rings.h), and their way into a table. */
#ifndef SEEKMETER_RECORDER_RINGS_H
#define SEEKMETER_RECORDER_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_map;
struct collector_state;
struct rec_file;

struct rings {
	char *memory;
	int count;
	uint64_t mask; /* records a ring, minus one */
	size_t ring_bytes, record_bytes;
	/* Turns a record of the ring into one of the table; false: the table is to be without it. NULL: it is one. */
	bool (*take)(void *record);
};

/* Chooses the size of `count` rings, as large as the limit of memory allows, and sets the map's. -1: errno is set. */
int rings_size(struct rings *rings, struct bpf_map *map, int count, size_t record_bytes);
/* Maps the rings of the loaded map. -1: errno is set. */
int rings_map(struct rings *rings, const struct bpf_map *map);
void rings_unmap(struct rings *rings);
/* How many records a ring has been given so far. */
uint64_t rings_head(const struct rings *rings, int ring);
/* Writes what is in the rings. Returns how many records have found no room so far. */
uint64_t rings_drain(struct rings *rings, struct rec_file *file, struct collector_state *state);

#endif
