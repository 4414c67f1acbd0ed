/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Finished records, on their way to the recorder (collectors/recorder/rings.h): rings of this CPU in an mmap'ed array. Each
 * ring has one writer on each CPU, a program or several that the kernel never nests: no lock.
 */
#ifndef SEEKMETER_RINGS_H
#define SEEKMETER_RINGS_H

#include "kernel.h"

#include "common/records.h"

/* The rings of a map; the recorder resizes it: as many as it needs, each with mask + 1 records. */
#define RINGS(name, record_type)                                               \
	struct {                                                               \
		__uint(type, BPF_MAP_TYPE_ARRAY);                              \
		__uint(map_flags, BPF_F_MMAPABLE);                             \
		__uint(max_entries, 1);                                        \
		__uint(key_size, sizeof(u32));                                 \
		__uint(value_size, sizeof(struct ring) + sizeof(record_type)); \
	} name SEC(".maps")

/* The place of the next record; NULL: the ring is full. `mask`: records of the ring, minus one. */
static __always_inline void *next_in_ring(struct ring *ring, u64 mask, u32 record_bytes)
{
	u64 head = ring->head;

	if (head - *(volatile u64 *)&ring->tail > mask) {
		ring->full++;
		return NULL;
	}
	return (void *)ring + sizeof(*ring) + (head & mask) * record_bytes;
}

/* Hands the record at the head over. The reader must see it before the new head; x86 keeps the order of stores. */
static __always_inline void advance_ring(struct ring *ring)
{
#ifdef __TARGET_ARCH_x86
	asm volatile("" ::: "memory");
	*(volatile u64 *)&ring->head = ring->head + 1;
#else
	__sync_fetch_and_add(&ring->head, 1);
#endif
}

#endif
