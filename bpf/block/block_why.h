/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Why a bio is sent, read where it is queued: the task's call, event and work item, and what the bio's end calls. Later the
 * task is another (kblockd), and what it did is over.
 */
#ifndef SEEKMETER_BLOCK_WHY_H
#define SEEKMETER_BLOCK_WHY_H

#include "block_state.h"
#include "common/kworkers.h"
#include "common/task_context.h"

#define PF_EXITING 0x00000004 /* linux/sched.h */
#define CHAINED_TO 4	      /* most parents of a bio that are looked at */

TASK_CONTEXTS

/* Functions that stand between a bio's end and the one that tells its kind. Set by the recorder; 0: not known. */
struct end_functions end_functions;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* linux/buffer_head.h */
struct buffer_head {
	/* no longer since "buffer: Remove b_end_io" (7.2 lacks it): a bio's own end is the buffer's then */
	void *b_end_io;
};

/* fs/btrfs/bio.h; the member since Linux kernel commit 917f32a23501 ("btrfs: give struct btrfs_bio a real end_io handler") (in v6.1) */
struct btrfs_bio {
	void *end_io;
	struct bio bio;
};

/* fs/btrfs/volumes.h */
struct btrfs_io_context {
	struct bio *orig_bio;
};

struct btrfs_io_stripe {
	struct btrfs_io_context *bioc;
};

#pragma clang attribute pop

/* The end function in the container of a bio of btrfs; 0: this kernel has none. */
static __always_inline u64 end_in_container(u64 bio)
{
	struct btrfs_bio *container;

	if (!bpf_core_field_exists(struct btrfs_bio, end_io) ||
	    !bpf_core_field_exists(struct btrfs_bio, bio))
		return 0;
	container = (void *)(bio - bpf_core_field_offset(struct btrfs_bio, bio));
	return (u64)BPF_CORE_READ(container, end_io);
}

/*
 * The function that tells what a bio is: its own end function, or the one behind it. __noinline: the verifier checks it
 * once, not on each path to it.
 */
__noinline u64 function_behind(u64 bio, u64 end)
{
	u64 private = (u64)BPF_CORE_READ((struct bio *)bio, bi_private), behind = 0;

	/* A part of a larger bio: the parent's end follows when all parts have ended. */
	for (int i = 0; i < CHAINED_TO && end == end_functions.chain && private; i++) {
		bio = private;
		behind = (u64)BPF_CORE_READ((struct bio *)bio, bi_end_io);
		if (!behind) /* not yet set */
			return end;
		end = behind;
		private = (u64)BPF_CORE_READ((struct bio *)bio, bi_private);
	}
	behind = 0;
	if (end == end_functions.buffer && bpf_core_field_exists(struct buffer_head, b_end_io))
		behind = (u64)BPF_CORE_READ((struct buffer_head *)private, b_end_io);
	else if (end == end_functions.btrfs_simple || end == end_functions.btrfs_original)
		behind = end_in_container(bio);
	else if (end == end_functions.btrfs_clone &&
		 bpf_core_field_exists(struct btrfs_io_stripe, bioc))
		behind = end_in_container(
			(u64)BPF_CORE_READ((struct btrfs_io_stripe *)private, bioc, orig_bio));
	return behind ? behind : end;
}

static __always_inline u32 end_io_of(struct bio *bio, u64 address, enum program program)
{
	u64 end = address_of(bio->bi_end_io, program);

	if (!end)
		return 0;
	if (end == end_functions.chain || end == end_functions.buffer ||
	    end == end_functions.btrfs_simple || end == end_functions.btrfs_original ||
	    end == end_functions.btrfs_clone)
		end = function_behind(address, end);
	return end;
}

static __always_inline void fill_why(struct block_why *why, struct bio *bio, u64 address,
				     enum program program)
{
	struct task_context *context;
	struct task_struct *task;
	u8 fault;

	why->event_id = 0;
	why->event_kind = EVENT_KIND_NONE;
	why->work_id = 0;
	why->call = CALL_NONE;
	why->call_state = have_task_contexts ? BLOCK_CALL_STATE_NONE : BLOCK_CALL_STATE_UNKNOWN;
	why->in_transaction = 0;
	why->end_io_id = end_io_of(bio, address, program);
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf))
		return;
	task = bpf_get_current_task_btf();
	why->in_transaction = task->journal_info != NULL;
	context = find_context(task);
	if (task->flags & PF_WQ_WORKER)
		why->work_id = function_of_kworker(task);
	if (!context)
		return;
	why->event_id = context->event_id;
	why->event_kind = context->event_kind;
	fault = context->call_is_over || !context->call ? fault_now(context, task) : 0;
	if (fault) {
		why->call = fault - 1;
		why->call_state = BLOCK_CALL_STATE_OPEN;
		return;
	}
	if (!context->call)
		return;
	why->call = context->call - 1;
	if (task->flags & PF_EXITING)
		why->call_state = BLOCK_CALL_STATE_EXIT;
	else
		why->call_state = context->call_is_over ? BLOCK_CALL_STATE_OVER
							: BLOCK_CALL_STATE_OPEN;
}

/* Of a request whose bio was not seen when it was queued: what the bio itself tells. */
static __always_inline void fill_why_late(struct block_why *why, struct bio *bio, u64 address,
					  enum program program)
{
	__builtin_memset(why, 0, sizeof(*why));
	why->call = CALL_NONE;
	if (!have_task_contexts)
		why->call_state = BLOCK_CALL_STATE_UNKNOWN;
	if (bio)
		why->end_io_id = end_io_of(bio, address, program);
}

#endif
