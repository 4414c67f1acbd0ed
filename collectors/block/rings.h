/* SPDX-License-Identifier: BSD-2-Clause */
/* The rings of finished records that the BPF programs fill (bpf/block/block_rings.h), and their way into a table. */
#ifndef SEEKMETER_RINGS_H
#define SEEKMETER_RINGS_H

#include <stddef.h>
#include <stdint.h>

struct bpf_map;
struct collector_state;
struct rec_file;

struct rings {
	char *memory;
	int count;
	uint64_t mask;				   /* records a ring, minus one */
	size_t ring_bytes, record_bytes, error_at; /* error_at: offset of the record's s32 error */
};

/* Chooses the size of `count` rings, as large as the limit of memory allows, and sets the map's. -1: errno is set. */
int rings_size(struct rings *rings, struct bpf_map *map, int count, size_t record_bytes,
	       size_t error_at);
/* Maps the rings of the loaded map. -1: errno is set. */
int rings_map(struct rings *rings, const struct bpf_map *map);
void rings_unmap(struct rings *rings);
/* Writes what is in the rings, with the kernel's errors as errno. Returns how many records have found no room so far. */
uint64_t rings_drain(struct rings *rings, struct rec_file *file, struct collector_state *state);

#endif
