/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whether the workload waited for a request: a task of it is woken while the kernel ends the request's bios.
 *
 * rq_complete() runs first and writes the record, so a wake marks a record that lies in the ring. Marked too late, if the
 * reader has it already: counted. Not seen is a request whose end a kernel thread passes on (unwritten extents of ext4 and
 * XFS, btrfs, dm-crypt), and one whose waiter had not gone to sleep yet.
 *
 * When its bios have ended a request gives back its tag, and may wake a task that waits for one (blk_mq_put_tag()), or a
 * writer that was held back (wbt_done()): these did not wait for this request. The kernel has set the request's length to 0
 * by then (blk_update_request(), blk_complete_request()).
 */
#ifndef SEEKMETER_BLOCK_WAITED_H
#define SEEKMETER_BLOCK_WAITED_H

#include "block_rings.h"
#include "block_why.h"
#include "common/completion.h"

/* Completions in a task's own context end at the latest with a switch; the recorder attaches task_switch() when it sees one. */
volatile bool sees_switches;

static __always_inline void begin_completion(struct request *rq, u64 address, u32 dev, u64 sector,
					     u64 position)
{
	struct block_completion *completion = completion_slot();
	enum cpu_context context = cpu_context_now();

	if (!completion)
		return;
	completion->dev = 0;
	if (context == CPU_CONTEXT_TASK && !sees_switches) {
		COUNT(completed_in_task);
		return;
	}
	completion->sector = sector;
	completion->thread = bpf_get_current_pid_tgid();
	completion->context = context;
	completion->request = rq->__data_len ? address : 0; /* of a flush it is 0 all along */
	completion->position = position;
	completion->dev = dev;
}

/*
 * The request of a disk that is not recorded: the one below a loop device. It has no row, but those who are woken waited
 * for it, and not for a recorded one that ended before it in the same interrupt.
 */
static __always_inline void begin_foreign_completion(struct request *rq)
{
	struct gendisk *disk = disk_of(rq);

	if (cpu_context_now() == CPU_CONTEXT_TASK)
		completion_forget();
	else
		begin_completion(rq, 0, disk->major << 20 | disk->first_minor, rq->__sector,
				 NO_POSITION);
}

static __always_inline bool ends_bios(const struct block_completion *completion)
{
	struct request *rq = (void *)completion->request;

	return !rq || BPF_CORE_READ(rq, __data_len);
}

/* Marks the record of the completion under way. */
static __always_inline void mark_waited(const struct block_completion *completion)
{
	u32 index = bpf_get_smp_processor_id() * BLOCK_RINGS_PER_CPU + RING_COMPLETE;
	struct ring *ring = bpf_map_lookup_elem(&rings, &index);
	u64 position = completion->position;
	struct block_record *record;

	if (!ring || position == NO_POSITION)
		return;
	record = (void *)ring + sizeof(*ring) + (position & ring_mask) * sizeof(*record);
	/* The reader says first what it takes, then reads: one of both sees the other. The add is a barrier. */
	record->waited = BLOCK_WAITED_COMPLETION;
	if (__sync_fetch_and_add(&ring->taken, 0) > position)
		COUNT(waited_late);
}

#endif
