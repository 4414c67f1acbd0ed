/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* f2fs: checkpoints and garbage collection. */
#ifndef SEEKMETER_EVENT_F2FS_H
#define SEEKMETER_EVENT_F2FS_H

#include "event_state.h"

/* fs/f2fs/f2fs.h: why a checkpoint is written */
#define CP_UMOUNT   0x01
#define CP_FASTBOOT 0x02
#define CP_SYNC	    0x04
#define CP_DISCARD  0x10

enum f2fs_cp_phase {
	CP_PHASE_START_BLOCK_OPS,
	CP_PHASE_FINISH_BLOCK_OPS,
	CP_PHASE_FINISH_CHECKPOINT,
};

static __always_inline enum event_why why_f2fs(int reason)
{
	if (reason & (CP_UMOUNT | CP_FASTBOOT))
		return EVENT_WHY_UMOUNT;
	if (reason & CP_DISCARD)
		return EVENT_WHY_DISCARD;
	return reason & CP_SYNC ? EVENT_WHY_SYNC : EVENT_WHY_MORE;
}

static __always_inline void begin_checkpoint(struct super_block *sb, int reason)
{
	struct open_event *open = begin_event(EVENT_KIND_F2FS_CHECKPOINT, why_f2fs(reason),
					      dev_of_sb(sb), bpf_ktime_get_ns());

	if (!open)
		return;
	open->message.record.asker_call = call_of(my_context());
	enter_event(open);
}

static __always_inline void end_checkpoint(void)
{
	struct open_event *open = find_event(EVENT_KIND_F2FS_CHECKPOINT);

	if (open)
		end_event(open, bpf_ktime_get_ns());
}

/* text: "start block_ops", "finish block_ops", "finish checkpoint" */
SEC("tp_btf/f2fs_write_checkpoint")
int BPF_PROG(f2fs_checkpoint, struct super_block *sb, int reason, const char *text)
{
	NEEDED(sb);
	NEEDED(text);
	char first = 0, second = 0;

	bpf_probe_read_kernel(&first, 1, text);
	bpf_probe_read_kernel(&second, 1, text + sizeof("finish ") - 1);
	if (first == 's')
		begin_checkpoint(sb, reason);
	else if (second == 'c')
		end_checkpoint();
	return 0;
}

/* The same of 7.2, with a number for the text. */
SEC("tp_btf/f2fs_write_checkpoint")
int BPF_PROG(f2fs_checkpoint_phase, struct super_block *sb, int reason, u32 phase)
{
	NEEDED(sb);
	if (phase == CP_PHASE_START_BLOCK_OPS)
		begin_checkpoint(sb, reason);
	else if (phase == CP_PHASE_FINISH_CHECKPOINT)
		end_checkpoint();
	return 0;
}

SEC("tp_btf/f2fs_gc_begin")
int BPF_PROG(f2fs_gc_begin, struct super_block *sb)
{
	NEEDED(sb);
	struct open_event *open =
		begin_event(EVENT_KIND_F2FS_GC, EVENT_WHY_SPACE, dev_of_sb(sb), bpf_ktime_get_ns());

	if (open)
		enter_event(open);
	return 0;
}

SEC("tp_btf/f2fs_gc_end")
int BPF_PROG(f2fs_gc_end, struct super_block *sb, int result, int segments)
{
	struct open_event *open = find_event(EVENT_KIND_F2FS_GC);

	if (!open)
		return 0;
	open->message.record.count = segments > 0 ? segments : 0;
	end_event(open, bpf_ktime_get_ns());
	return 0;
}

#endif
