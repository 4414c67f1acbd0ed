/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Origins: which bio of the top volume a bio on its way down serves.
 *
 * A layer's remap (block_bio_remap) writes the entry, under the lower bio's address. The lower bio's own queueing
 * (block_bio_queue) takes it: at a disk it then stays until the request is issued, at another volume it goes into that
 * volume's own entry (block_volumes.h). A bio queued without a fresh remap has no origin: bios' addresses are used again,
 * and what an earlier bio left under the address would be a false one.
 *
 * Remapped is not always queued again: an NVMe head, and md until it cloned what it accounts, pass the same bio on. The
 * kernel queues and ends such a bio once (BIO_TRACE_COMPLETION): it is a part of the volume's bio, which ends with the
 * request.
 */
#ifndef SEEKMETER_BLOCK_ORIGINS_H
#define SEEKMETER_BLOCK_ORIGINS_H

#include "block_state.h"

#define ORIGIN_WAYS 4

struct origin {
	u64 bio;	/* address of the bio on its way down; 0: empty */
	u64 id;		/* of the top volume's bio; 0: a layer's own, of own_class */
	u64 top_sector; /* on the top volume, of the sector below */
	u64 sector;	/* where the bio was sent to, in the device's own sectors */
	u64 at_ns;	/* when it was entered */
	u64 part_id;	/* id of the volume's bio that it is a part of */
	u32 slot;	/* in volume_bios, of the top volume's bio */
	u32 part; /* in volume_bios, of the volume's bio that ends with the request; NO_SLOT: none */
	u8 waits; /* not queued yet */
	enum block_class own_class;
};

struct origin_set {
	struct origin way[ORIGIN_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* resized to ORIGIN_SETS if there are volumes */
	__type(key, u32);
	__type(value, struct origin_set);
} origins SEC(".maps");

/* By disk, beside flush_waiters: the origin of the first bio since the last flush that needs a flush. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_DEVS);
	__type(key, u32);
	__type(value, struct origin);
} flush_origins SEC(".maps");

static __always_inline struct origin_set *origin_set_of(u64 bio)
{
	u32 set = hash_to(bio, ORIGIN_SET_BITS);

	return bpf_map_lookup_elem(&origins, &set);
}

static __always_inline struct origin *find_origin(u64 bio)
{
	struct origin_set *set = origin_set_of(bio);

	if (!set)
		return NULL;
#pragma unroll
	for (int i = 0; i < ORIGIN_WAYS; i++)
		if (set->way[i].bio == bio)
			return &set->way[i];
	return NULL;
}

/* The bio's entry, an empty one, or the oldest of its set. Two CPUs that take the same one at once lose an origin. */
static __always_inline struct origin *claim_origin(u64 bio)
{
	struct origin_set *set = origin_set_of(bio);
	struct origin *to;

	if (!set)
		return NULL;
	to = &set->way[0];
#pragma unroll
	for (int i = 0; i < ORIGIN_WAYS; i++) {
		if (set->way[i].bio == bio) {
			to = &set->way[i];
			break;
		}
		if (to->bio && (!set->way[i].bio || set->way[i].at_ns < to->at_ns))
			to = &set->way[i];
	}
	return to;
}

/* The origin of a bio that is queued now; NULL: no layer remapped it to this sector just before. */
static __always_inline struct origin *take_origin(u64 bio, u64 sector)
{
	struct origin *origin = find_origin(bio);

	if (!origin)
		return NULL;
	if (origin->waits && origin->sector == sector) {
		origin->waits = 0;
		return origin;
	}
	origin->bio = 0;
	return NULL;
}

#endif
