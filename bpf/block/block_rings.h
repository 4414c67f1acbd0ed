/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finished records, on their way to the recorder: rings of this CPU in an mmap'ed array. Each program that writes has a
 * ring of its own on each CPU, and the kernel never nests a program on a CPU: one writer, no lock.
 */
#ifndef SEEKMETER_BLOCK_RINGS_H
#define SEEKMETER_BLOCK_RINGS_H

#include "block_state.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* resized: BLOCK_RINGS_PER_CPU a CPU */
	__uint(key_size, sizeof(u32));
	__uint(value_size,
	       sizeof(struct block_ring) +
		       sizeof(struct block_record)); /* resized: ring_mask + 1 records */
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* resized: VOLUME_RINGS_PER_CPU a CPU, if there are volumes */
	__uint(key_size, sizeof(u32));
	__uint(value_size,
	       sizeof(struct block_ring) + sizeof(struct volume_record)); /* resized, too */
} volume_rings SEC(".maps");

/* The place of the next record; NULL: the ring is full. `mask`: records of the ring, minus one. */
static __always_inline void *next_in_ring(struct block_ring *ring, u64 mask, u32 record_bytes)
{
	u64 head = ring->head;

	if (head - *(volatile u64 *)&ring->tail > mask) {
		ring->full++;
		return NULL;
	}
	return (void *)ring + sizeof(*ring) + (head & mask) * record_bytes;
}

/* Hands the record at the head over. The reader must see it before the new head; x86 keeps the order of stores. */
static __always_inline void advance_ring(struct block_ring *ring)
{
#ifdef __TARGET_ARCH_x86
	asm volatile("" ::: "memory");
	*(volatile u64 *)&ring->head = ring->head + 1;
#else
	__sync_fetch_and_add(&ring->head, 1);
#endif
}

static __always_inline void write_record(const struct block_record *record,
					 enum block_ring_writer writer)
{
	u32 index = bpf_get_smp_processor_id() * BLOCK_RINGS_PER_CPU + writer;
	struct block_ring *ring = bpf_map_lookup_elem(&rings, &index);
	struct block_record *to;

	if (!ring)
		return;
	to = next_in_ring(ring, ring_mask, sizeof(*to));
	if (!to)
		return;
	if (have_volumes)
		__builtin_memcpy(to, record, sizeof(*to));
	else /* the rest is zero, in the record and in the ring */
		__builtin_memcpy(&to->queue_ns, &record->queue_ns,
				 sizeof(*to) - offsetof(struct block_record, queue_ns));
	advance_ring(ring);
}

static __always_inline void write_volume(const struct volume_record *record,
					 enum volume_ring_writer writer)
{
	u32 index = bpf_get_smp_processor_id() * VOLUME_RINGS_PER_CPU + writer;
	struct block_ring *ring = bpf_map_lookup_elem(&volume_rings, &index);
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
