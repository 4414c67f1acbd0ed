/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Is a request that `inflight` holds, or a bio that `volume_bios` holds, still under way? Part of block.bpf.c; the recorder runs
 * this, for a trigger.
 *
 * A slot may hold a request that has completed: where the kernel did not run rq_complete(), until the tag's next issue. So may
 * one of a bio, until its address is used again, by whomever.
 */
#ifndef SEEKMETER_BLOCK_CHECK_H
#define SEEKMETER_BLOCK_CHECK_H

#include "block_volumes.h"

/* The bit of bio.bi_flags that is set from the bio's queueing to its end (BIO_TRACE_COMPLETION); -1: not known. */
const volatile s32 under_way_bit = -1;

u32 checked_slot;      /* set by the recorder */
bool checked_is_there; /* the answer */

SEC("raw_tp")
int check_in_flight(void *ctx)
{
	u32 index = checked_slot;
	struct block_inflight *slot = bpf_map_lookup_elem(&inflight, &index);
	struct request *rq = slot ? (struct request *)slot->request : NULL;

	checked_is_there = rq && BPF_CORE_READ(rq, state) !=
					 bpf_core_enum_value(enum mq_rq_state, MQ_RQ_IDLE);
	return 0;
}

/* A bio that its volume has sent on to another device, instead of a clone, is not the volume's any more. */
SEC("raw_tp")
int check_bio(void *ctx)
{
	struct volume_set *set = volume_set_of(checked_slot);
	u32 way = checked_slot & (VOLUME_WAYS - 1);
	struct volume_record *record;
	struct gendisk *disk;
	struct bio *bio;
	u64 sector;

	checked_is_there = false;
	if (!set || under_way_bit < 0)
		return 0;
	record = &set->way[way].record;
	bio = (struct bio *)set->bio[way];
	if (!bio || !(BPF_CORE_READ(bio, bi_flags) >> under_way_bit & 1))
		return 0;
	if (bpf_core_field_exists(struct bio, bi_disk))
		disk = BPF_CORE_READ(bio, bi_disk);
	else
		disk = BPF_CORE_READ(bio, bi_bdev, bd_disk);
	if ((BPF_CORE_READ(disk, major) << 20 | BPF_CORE_READ(disk, first_minor)) != record->dev)
		return 0;
	/* What is left of it, where parts have been split off. */
	sector = BPF_CORE_READ(bio, bi_iter.bi_sector);
	checked_is_there = sector >= record->sector &&
			   (sector - record->sector) * 512 <= record->bytes;
	return 0;
}

#endif
