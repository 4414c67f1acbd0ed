/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Bios to volumes by sector: which bio of a volume covers this sector, and is not over yet?
 *
 * A bio that a layer sends down names its place on the volume, not the volume's bio: block_bio_remap and block_rq_remap
 * pass device and sector. The place may be anywhere in a bio of the volume: layers cut bios at chunks, at stripes
 * (raid5: a bio for each 4 KiB), and at limits of the disk below.
 *
 * A bio is entered under its first sector, which most lookups ask for, and under aligned blocks of 4 KiB x 4^n that
 * together cover it. A sector lies in at most one of these, at one of ten sizes: a lookup tries the sizes in use. A 1 MiB
 * bio at an odd place has about twelve blocks; an aligned one of 4 KiB, 64 KiB or 1 MiB has one.
 *
 * bcache and LVM's raid tell no place: they queue clones. A clone has its original's list of pages (bi_io_vec), which no other
 * bio can have before the original ends: such volumes' bios are entered under that list's address.
 *
 * Entries are never removed. The id of the bio tells whether an entry still holds.
 */
#ifndef SEEKMETER_BLOCK_RANGES_H
#define SEEKMETER_BLOCK_RANGES_H

#include "block_state.h"

#define RANGE_WAYS	 8
#define LEVEL_START	 1 /* a bio's first sector */
#define LEVEL_PAGES	 4 /* the bio's list of pages, which its clones have too */
#define LEVEL_FLUSH	 2 /* a bio with a flush; the layers' flushes pass no sector */
#define LEVEL_FIRST	 3 /* blocks of 1 << level sectors: 4 KiB */
#define LEVEL_STEP	 2
#define LEVEL_LAST	 21
#define RANGE_BLOCKS_MAX 64 /* of one bio: only a discard of gigabytes has more */

struct range_entry {
	u64 key; /* see range_key(); 0: empty */
	u64 bio_id;
	u32 slot; /* in volume_bios */
	u32 age;  /* when it was entered, in units of 2^16 ns */
};

struct range_set {
	struct range_entry way[RANGE_WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* resized to RANGE_SETS if there are volumes */
	__type(key, u32);
	__type(value, struct range_set);
} ranges SEC(".maps");

/* By volume: sizes of blocks ever entered, one bit a level. */
static u32 range_levels[MAX_DEVS];

static __always_inline u64 range_key(u32 index, bool is_write, u32 level, u64 sector)
{
	return (u64)index << 58 | (u64)is_write << 57 | (u64)level << 52 | sector;
}

static __always_inline u64 pages_key(u64 list, bool is_write)
{
	return range_key(0, is_write, LEVEL_PAGES, list >> 3 & ((1ULL << 52) - 1));
}

static __always_inline struct range_set *range_set_of(u64 key)
{
	u32 set = hash_to(key, RANGE_SET_BITS);

	return bpf_map_lookup_elem(&ranges, &set);
}

/* Enters a key, instead of the oldest of its set. */
__noinline int put_range(u64 key, u32 slot, u64 bio_id)
{
	struct range_set *set = range_set_of(key);
	struct range_entry *to;
	u32 now = bpf_ktime_get_ns() >> 16;

	if (!set)
		return 0;
	to = &set->way[0];
	for (int i = 0; i < RANGE_WAYS; i++) {
		struct range_entry *way = &set->way[i];

		if (way->key == key) {
			to = way;
			break;
		}
		if (now - way->age > now - to->age)
			to = way;
	}
	to->key = 0; /* another CPU must not see the new key with the old bio */
	to->slot = slot;
	to->bio_id = bio_id;
	to->age = now;
	*(volatile u64 *)&to->key = key;
	return 0;
}

/* The largest level whose block begins at `sector` and ends by `end`; the least if none does. */
__noinline u32 level_at(u64 sector, u64 end)
{
	u32 best = LEVEL_FIRST;

	for (u32 level = LEVEL_FIRST; level <= LEVEL_LAST; level += LEVEL_STEP)
		if (!(sector & ((1ULL << level) - 1)) && sector + (1ULL << level) <= end)
			best = level;
	return best;
}

/* Enters the blocks that cover [sector, end); key: range_key() of level and sector 0. Returns 1 if there are too many. */
__noinline int put_blocks(u64 key, u64 sector, u64 end, u32 slot, u64 bio_id)
{
	u32 index = key >> 58 & (MAX_DEVS - 1), level;

	/* What lies before the first whole block is found by the first sector, or not at all. */
	sector = (sector + 7) & ~7ULL;
	for (int i = 0; i < RANGE_BLOCKS_MAX; i++) {
		if (sector >= end)
			return 0;
		level = level_at(sector, end) & 31;
		put_range(key | (u64)level << 52 | sector, slot, bio_id);
		if (!(range_levels[index] & 1U << level))
			range_levels[index] |= 1U << level;
		sector += 1ULL << level;
	}
	return 1;
}

#endif
