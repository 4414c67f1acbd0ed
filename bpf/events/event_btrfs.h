/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Btrfs: commits of transactions, waits for a reservation, work to make room.
 *
 * A commit's tracepoint comes once, at its end; its begin follows from the length that the kernel notes. Kernels with
 * critical_section_start_time note it before the tracepoint, others right after: there the recorder reads it a little
 * later.
 */
#ifndef SEEKMETER_EVENT_BTRFS_H
#define SEEKMETER_EVENT_BTRFS_H

#include "event_state.h"

#define BTRFS_SYSTEMS	64
#define BTRFS_SYNC_FILE 1
#define BTRFS_SYNC_FS	2
#define TIMER_SLACK_NS	2000000000ULL /* the thread looks every second or so */
#define BTRFS_KTHREAD	"btrfs-transac"
#define BTRFS_CLEANER	"btrfs-cleaner"
#define NS_A_SECOND	1000000000ULL

/* What a task did last that may end in a commit. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OPEN_EVENTS);
	__type(key, u32); /* tid */
	__type(value, u32);
} btrfs_syncs SEC(".maps");

/* End of the last commit, by file system (address). */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, BTRFS_SYSTEMS);
	__type(key, u64);
	__type(value, u64);
} btrfs_commits SEC(".maps");

/* Set by read_btrfs_commit(), which the recorder runs. */
u64 btrfs_at;
u64 btrfs_commit_count, btrfs_commit_ns;

static __always_inline u32 dev_of_btrfs(const struct btrfs_fs_info *info)
{
	return dev_of_sb(BPF_CORE_READ(info, sb));
}

static __always_inline bool starts_with(const char *text, const char *begin, u32 bytes)
{
	for (u32 i = 0; i < bytes; i++)
		if (text[i] != begin[i])
			return false;
	return true;
}

static __always_inline enum event_why why_btrfs(struct event_record *record,
						const struct btrfs_fs_info *info, u64 now)
{
	struct task_context *context = my_context();
	enum call_name call = call_of(context);
	u64 key = (u64)info, *last = bpf_map_lookup_elem(&btrfs_commits, &key);
	u64 interval_ns = BPF_CORE_READ(info, commit_interval) * NS_A_SECOND;
	bool is_kernel_thread = bpf_get_current_task_btf()->flags & PF_KTHREAD;
	u32 *sync, tid = record->tid, kind;

	if (is_kernel_thread &&
	    starts_with(record->comm, BTRFS_KTHREAD, sizeof(BTRFS_KTHREAD) - 1)) {
		/* The transaction begins after the last commit: it can't be as old as the interval if that was later. */
		if (last && now - *last + TIMER_SLACK_NS < interval_ns)
			return EVENT_WHY_ASKED;
		return EVENT_WHY_TIMER;
	}
	if (is_kernel_thread && starts_with(record->comm, BTRFS_CLEANER, sizeof(BTRFS_CLEANER) - 1))
		return EVENT_WHY_CLEANER;
	record->asker_tid = tid;
	sync = bpf_map_lookup_elem(&btrfs_syncs, &tid);
	kind = sync ? *sync : 0;
	if (sync)
		bpf_map_delete_elem(&btrfs_syncs, &tid);
	if (call == CALL_SYNCFS)
		return EVENT_WHY_SYNCFS;
	if (call == CALL_SYNC || kind == BTRFS_SYNC_FS)
		return EVENT_WHY_SYNC;
	if (call == CALL_FSYNC || call == CALL_FDATASYNC || call == CALL_MSYNC ||
	    kind == BTRFS_SYNC_FILE)
		return EVENT_WHY_FSYNC;
	if (is_kernel_thread && starts_with(record->comm, "kworker", 7))
		return EVENT_WHY_SPACE;
	return EVENT_WHY_ASKED;
}

static __always_inline void note_sync(u32 kind)
{
	u32 tid = this_tid();

	bpf_map_update_elem(&btrfs_syncs, &tid, &kind, BPF_ANY);
}

SEC("tp_btf/btrfs_sync_file")
int BPF_PROG(btrfs_sync_file)
{
	note_sync(BTRFS_SYNC_FILE);
	return 0;
}

/* The name of 7.2. */
SEC("tp_btf/btrfs_sync_file_enter")
int BPF_PROG(btrfs_sync_file_begin)
{
	note_sync(BTRFS_SYNC_FILE);
	return 0;
}

SEC("tp_btf/btrfs_sync_fs")
int BPF_PROG(btrfs_sync_fs)
{
	note_sync(BTRFS_SYNC_FS);
	return 0;
}

SEC("tp_btf/btrfs_transaction_commit")
int BPF_PROG(btrfs_commit, const struct btrfs_fs_info *info)
{
	NEEDED(info);
	struct task_struct___events *task = (void *)bpf_get_current_task();
	struct btrfs_trans_handle *handle = BPF_CORE_READ(task, journal_info);
	u64 key = (u64)info, end_ns, length_ns;
	struct event_message message;

	if (!make_point(&message, EVENT_KIND_BTRFS_COMMIT, EVENT_WHY_UNKNOWN, dev_of_btrfs(info)))
		return 0;
	message.record.sequence = BPF_CORE_READ(info, generation);
	/* A handle below 4096 is a mark, not an address. */
	if ((u64)handle > 4096 && BPF_CORE_READ(handle, fs_info) == info)
		message.record.sequence = BPF_CORE_READ(handle, transid);
	message.record.why = why_btrfs(&message.record, info, message.record.end_ns);
	if (bpf_core_field_exists(struct btrfs_commit_stats, critical_section_start_time)) {
		length_ns = BPF_CORE_READ(info, commit_stats.last_commit_dur);
		if (length_ns < message.record.end_ns)
			message.record.start_ns -= length_ns;
	} else if (bpf_core_field_exists(struct btrfs_fs_info, commit_stats)) {
		message.record.count = BPF_CORE_READ(info, commit_stats.commit_count);
		message.address = key;
	}
	end_ns = message.record.end_ns;
	bpf_map_update_elem(&btrfs_commits, &key, &end_ns, BPF_ANY);
	send(&message);
	return 0;
}

/* Adds the time since the last report to the phase that ends. */
static __always_inline void end_state(struct open_event *open, u32 state, u64 now)
{
	u64 length = now - open->mark_ns;

	if (state == TRANS_STATE_COMMIT_PREP)
		open->message.record.p1_ns += length;
	else if (state == TRANS_STATE_COMMIT_START)
		open->message.record.p2_ns += length;
	else if (state == TRANS_STATE_COMMIT_DOING)
		open->message.record.p3_ns += length;
	else if (state == TRANS_STATE_UNBLOCKED)
		open->message.record.p4_ns += length;
	else
		open->message.record.p5_ns += length;
	open->mark_ns = now;
}

/* The same event of 7.2: comes at each state of the transaction, first when the commit begins. */
SEC("tp_btf/btrfs_transaction_commit")
int BPF_PROG(btrfs_commit_state, const struct btrfs_trans_handle *handle)
{
	NEEDED(handle);
	u64 now = bpf_ktime_get_ns(), key;
	const struct btrfs_fs_info *info = BPF_CORE_READ(handle, fs_info);
	u32 state = BPF_CORE_READ(handle, transaction, state);
	struct open_event *open = find_event(EVENT_KIND_BTRFS_COMMIT);
	struct event_record *record;

	if (open && open->message.record.sequence != BPF_CORE_READ(handle, transid))
		open = NULL; /* that commit failed: it has no last state */
	if (!open) {
		open = begin_event(EVENT_KIND_BTRFS_COMMIT, EVENT_WHY_UNKNOWN, dev_of_btrfs(info),
				   now);
		if (!open)
			return 0;
		record = &open->message.record;
		record->sequence = BPF_CORE_READ(handle, transid);
		record->why = why_btrfs(record, info, now);
		record->asker_call = call_of(my_context());
		open->mark_ns = now;
		enter_event(open);
	} else {
		end_state(open, open->subject, now);
	}
	open->subject = state;
	if (state < TRANS_STATE_COMPLETED)
		return 0;
	key = (u64)info;
	bpf_map_update_elem(&btrfs_commits, &key, &now, BPF_ANY);
	end_event(open, now);
	return 0;
}

/* Reads how long the last commit of the file system at btrfs_at took. Attached to nothing. */
SEC("raw_tp")
int read_btrfs_commit(void *ctx)
{
	const struct btrfs_fs_info *info = (void *)btrfs_at;

	if (!bpf_core_field_exists(struct btrfs_fs_info, commit_stats))
		return 0;
	btrfs_commit_count = BPF_CORE_READ(info, commit_stats.commit_count);
	btrfs_commit_ns = BPF_CORE_READ(info, commit_stats.last_commit_dur);
	return 0;
}

/* At the end of a wait for a reservation of space. */
SEC("tp_btf/btrfs_reserve_ticket")
int BPF_PROG(btrfs_ticket, const struct btrfs_fs_info *info, u64 flags, u64 bytes, u64 start_ns)
{
	NEEDED(info);
	struct event_message message;

	if (!make_point(&message, EVENT_KIND_BTRFS_TICKET, EVENT_WHY_SPACE, dev_of_btrfs(info)))
		return 0;
	if (start_ns && start_ns < message.record.end_ns)
		message.record.start_ns = start_ns;
	message.record.bytes = bytes;
	send(&message);
	return 0;
}

/* After each step to make room; its number is one of enum btrfs_flush_state. */
SEC("tp_btf/btrfs_flush_space")
int BPF_PROG(btrfs_flush_space, const struct btrfs_fs_info *info, u64 flags, u64 bytes, int state)
{
	NEEDED(info);
	struct event_message message;

	if (!make_point(&message, EVENT_KIND_BTRFS_FLUSH_SPACE, EVENT_WHY_SPACE,
			dev_of_btrfs(info)))
		return 0;
	if (bytes != ~0ULL) /* else: all that can be had */
		message.record.bytes = bytes;
	message.record.sequence = state;
	send(&message);
	return 0;
}

#endif
