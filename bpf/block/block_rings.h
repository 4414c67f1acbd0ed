/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* Rings of finished records: each program that writes has one of its own on each CPU. */
#ifndef SEEKMETER_BLOCK_RINGS_H
#define SEEKMETER_BLOCK_RINGS_H

#include "block_state.h"
#include "common/rings.h"

/* BLOCK_RINGS_PER_CPU a CPU, with ring_mask + 1 records */
RINGS(rings, struct block_record);
/* VOLUME_RINGS_PER_CPU a CPU, if there are volumes */
RINGS(volume_rings, struct volume_record);

#define NO_POSITION (~0ULL)

/* Returns the record's position in the ring; NO_POSITION: the ring is full. */
static __always_inline u64 write_record(const struct block_record *record,
					enum block_ring_writer writer)
{
	u32 index = bpf_get_smp_processor_id() * BLOCK_RINGS_PER_CPU + writer;
	struct ring *ring = bpf_map_lookup_elem(&rings, &index);
	struct block_record *to;

	if (!ring)
		return NO_POSITION;
	to = next_in_ring(ring, ring_mask, sizeof(*to));
	if (!to)
		return NO_POSITION;
	if (have_volumes)
		__builtin_memcpy(to, record, sizeof(*to));
	else { /* the rest is zero, in the record and in the ring */
		__builtin_memcpy(to, record, offsetof(struct block_record, origin));
		__builtin_memcpy(&to->queue_ns, &record->queue_ns,
				 sizeof(*to) - offsetof(struct block_record, queue_ns));
	}
	advance_ring(ring);
	return ring->head - 1;
}

static __always_inline void write_volume(const struct volume_record *record,
					 enum volume_ring_writer writer)
{
	u32 index = bpf_get_smp_processor_id() * VOLUME_RINGS_PER_CPU + writer;
	struct ring *ring = bpf_map_lookup_elem(&volume_rings, &index);
	struct volume_record *to;

	if (!ring)
		return;
	to = next_in_ring(ring, volume_ring_mask, sizeof(*to));
	if (!to)
		return;
	__builtin_memcpy(to, record, sizeof(*to));
	advance_ring(ring);
}

#endif
