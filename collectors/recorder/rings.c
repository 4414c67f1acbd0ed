// SPDX-License-Identifier: BSD-2-Clause
/* Sizes, maps and empties the rings of finished records; see rings.h. */
#include "rings.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/records.h"
#include "bpf_maps.h"
#include "collector.h"
#include "rec_file.h"

#define RINGS_BYTES_MAX	 (64UL << 20)
#define RING_RECORDS_MAX 32768
#define RING_RECORDS_MIN 1024

/* Whether the kernel takes elements of an array this large: before 5.11 only what kmalloc() gives, 4 MiB. */
static bool are_allowed(size_t bytes)
{
	LIBBPF_OPTS(bpf_map_create_opts, options, .map_flags = BPF_F_MMAPABLE);
	int map = bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, sizeof(uint32_t), bytes, 1, &options);

	if (map < 0)
		return false;
	close(map);
	return true;
}

static size_t bytes_of(uint64_t records, size_t record_bytes)
{
	return sizeof(struct ring) + records * record_bytes;
}

int rings_size(struct rings *rings, struct bpf_map *map, int count, size_t record_bytes)
{
	uint64_t records = RING_RECORDS_MAX;

	while (records > RING_RECORDS_MIN && records * count * record_bytes > RINGS_BYTES_MAX)
		records /= 2;
	while (records > RING_RECORDS_MIN && !are_allowed(bytes_of(records, record_bytes)))
		records /= 2;
	rings->count = count;
	rings->mask = records - 1;
	rings->record_bytes = record_bytes;
	rings->ring_bytes = bytes_of(records, record_bytes);
	return bpf_map__set_value_size(map, rings->ring_bytes) ||
			       bpf_map__set_max_entries(map, count)
		       ? -1
		       : 0;
}

int rings_map(struct rings *rings, const struct bpf_map *map)
{
	rings->memory =
		map_memory(map, map_bytes(rings->ring_bytes, rings->count), PROT_READ | PROT_WRITE);
	return rings->memory ? 0 : -1;
}

void rings_unmap(struct rings *rings)
{
	unmap_memory(rings->memory, map_bytes(rings->ring_bytes, rings->count));
	rings->memory = NULL;
}

static struct ring *ring_at(const struct rings *rings, int i)
{
	return (void *)(rings->memory + i * rings->ring_bytes);
}

uint64_t rings_head(const struct rings *rings, int ring)
{
	return __atomic_load_n(&ring_at(rings, ring)->head, __ATOMIC_ACQUIRE);
}

/* Moves the records that are kept to the front; returns how many they are. */
static uint64_t take(const struct rings *rings, char *records, uint64_t count)
{
	uint64_t kept = 0;

	if (!rings->take)
		return count;
	for (uint64_t i = 0; i < count; i++) {
		char *record = records + i * rings->record_bytes;

		if (!rings->take(record))
			continue;
		if (kept < i)
			memcpy(records + kept * rings->record_bytes, record, rings->record_bytes);
		kept++;
	}
	return kept;
}

static void drain_ring(const struct rings *rings, struct ring *ring, struct rec_file *file,
		       struct collector_state *state)
{
	char *records = (char *)(ring + 1);
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), kept;

	__atomic_store_n(&ring->taken, head, __ATOMIC_SEQ_CST);
	while (ring->tail != head) {
		uint64_t at = ring->tail & rings->mask;
		uint64_t run = rings->mask + 1 - at;

		if (run > head - ring->tail)
			run = head - ring->tail;
		kept = take(rings, records + at * rings->record_bytes, run);
		state->recorded +=
			rec_file_write(file, state, records + at * rings->record_bytes, kept);
		__atomic_store_n(&ring->tail, ring->tail + run, __ATOMIC_RELEASE);
	}
}

uint64_t rings_drain(struct rings *rings, struct rec_file *file, struct collector_state *state)
{
	uint64_t full = 0;

	for (int i = 0; rings->memory && i < rings->count; i++) {
		struct ring *ring = ring_at(rings, i);

		drain_ring(rings, ring, file, state);
		full += ring->full;
	}
	return full;
}
