/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * jbd2, the journal of ext3, ext4 and ocfs2: commits with their phases and reasons, and checkpoints.
 *
 * No tracepoint shows who asks for a commit. Whoever asks sets t_requested, which the journal's own timer does not, and
 * wakes the journal's thread: so the asker is the current task at that wake. A commit that is asked for during another
 * one needs no wake. It is then a sync's if the file of a sync under way waits for this very transaction.
 */
#ifndef SEEKMETER_EVENT_JOURNAL_H
#define SEEKMETER_EVENT_JOURNAL_H

#include "event_state.h"

#define JBD2_UNMOUNT	1 /* linux/jbd2.h: journal_s.j_flags */
#define JOURNALS	256
#define JOURNAL_THREADS 8
#define SYNCS		4
#define SYNC_FS_NS	100000000ULL /* from sync_fs() to the commit that it asks for, at most */

/* An fsync under way. */
struct sync_call {
	u64 inode;
	u32 tid;
	enum call_name call;
	u8 pad[3];
};

struct journal_state {
	struct sync_call syncs[SYNCS]; /* the newest */
	u64 task;		       /* the journal's thread */
	u64 asked_ns;
	u32 asked_transaction; /* the one that the asker wants committed */
	u32 asker_tid;
	u32 syncing_tid; /* the task that was last in sync_fs(), and has not asked since */
	u32 next_sync;
	u64 syncing_ns;
	enum event_why asked_why;
	enum call_name asker_call;
	enum call_name syncing_call;
	u8 is_committing;
	u8 nearly_full; /* at the asker's wake */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, JOURNALS);
	__type(key, u64); /* address of the journal */
	__type(value, struct journal_state);
} journals SEC(".maps");

static struct journal_state no_journal;

/* Tasks in an fsync, or in a write that syncs, of an ext4 file. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OPEN_EVENTS);
	__type(key, u32);   /* tid */
	__type(value, u64); /* address of the inode */
} sync_tasks SEC(".maps");

/* Threads of the journals seen last. */
static struct journal_thread {
	u64 task;
	u64 journal;
} journal_threads[JOURNAL_THREADS];
static u32 next_thread;

static __always_inline u64 jiffies(void)
{
	return bpf_jiffies64();
}

static __always_inline struct journal_state *state_of(struct journal_s *journal)
{
	u64 key = (u64)journal;
	u64 task = (u64)BPF_CORE_READ(journal, j_task);
	struct journal_state *state = bpf_map_lookup_elem(&journals, &key);
	u32 at;

	if (state && state->task == task)
		return state;
	/* A new journal, perhaps where an unmounted one was. */
	if (bpf_map_update_elem(&journals, &key, &no_journal, BPF_ANY))
		return NULL;
	at = next_thread++ % JOURNAL_THREADS;
	journal_threads[at].journal = key;
	journal_threads[at].task = task;
	state = bpf_map_lookup_elem(&journals, &key);
	if (state)
		state->task = task;
	return state;
}

static __always_inline bool is_sync_call(enum call_name call)
{
	return call == CALL_FSYNC || call == CALL_FDATASYNC || call == CALL_MSYNC ||
	       call == CALL_URING_FSYNC || call == CALL_AIO_FSYNC;
}

/* Why the current task asks for a commit. WHY_ASKED: its call does not tell. */
static __always_inline enum event_why why_asked(struct journal_state *state,
						struct task_context *context, enum call_name call)
{
	u32 tid = this_tid();
	bool in_sync_fs = state->syncing_tid == tid;

	state->syncing_tid = 0;
	if (is_sync_call(call) || bpf_map_lookup_elem(&sync_tasks, &tid))
		return EVENT_WHY_FSYNC;
	if (call == CALL_SYNCFS)
		return EVENT_WHY_SYNCFS;
	if (call == CALL_SYNC || in_sync_fs)
		return EVENT_WHY_SYNC;
	if (context && context->event_kind == EVENT_KIND_JBD2_CHECKPOINT)
		return EVENT_WHY_CHECKPOINT;
	return EVENT_WHY_ASKED;
}

/* The next handle may not fit: the handles have half the credits that a transaction may have, or more. */
static __always_inline bool is_nearly_full(struct journal_s *journal,
					   struct transaction_s *transaction)
{
	u32 credits = BPF_CORE_READ(transaction, t_outstanding_credits.counter);

	return credits * 2 >= (u32)BPF_CORE_READ(journal, j_max_transaction_buffers);
}

/* The journal's thread is woken: notes who asks for a commit. */
static __always_inline void note_wake(u64 journal_address, struct task_struct *task)
{
	struct journal_s *journal = (void *)journal_address;
	struct journal_state *state = bpf_map_lookup_elem(&journals, &journal_address);
	struct transaction_s *running;
	struct task_context *context;
	struct event_counts *count;
	u32 transaction;

	if (!state || state->is_committing || BPF_CORE_READ(journal, j_task) != task)
		return;
	running = BPF_CORE_READ(journal, j_running_transaction);
	if (!running || !BPF_CORE_READ(running, t_requested))
		return; /* the timer */
	transaction = BPF_CORE_READ(running, t_tid);
	if (state->asker_tid && state->asked_transaction == transaction)
		return;
	count = my_counts();
	if (count)
		count->asked_wakes++;
	context = have_task_contexts ? find_context(bpf_get_current_task_btf()) : NULL;
	state->asked_ns = bpf_ktime_get_ns();
	state->asked_transaction = transaction;
	state->asker_tid = this_tid();
	state->asker_call = call_of(context);
	state->asked_why = why_asked(state, context, state->asker_call);
	state->nearly_full = is_nearly_full(journal, running);
}

/* Hot: every wake of every task. */
SEC("tp_btf/sched_waking")
int BPF_PROG(journal_waking, struct task_struct *task)
{
	if (!(task->flags & PF_KTHREAD))
		return 0;
	for (u32 i = 0; i < JOURNAL_THREADS; i++)
		if (*(volatile u64 *)&journal_threads[i].task == (u64)task)
			note_wake(journal_threads[i].journal, task);
	return 0;
}

/* The journal of an ext4 super block; NULL: it has none. */
static __always_inline struct journal_s *journal_of(struct super_block *sb)
{
	struct ext4_sb_info *info = BPF_CORE_READ((struct super_block___events *)sb, s_fs_info);

	return info ? BPF_CORE_READ(info, s_journal) : NULL;
}

SEC("tp_btf/ext4_sync_file_enter")
int BPF_PROG(journal_sync_enter, struct file *file)
{
	NEEDED(file);
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct journal_s *journal = journal_of(BPF_CORE_READ(inode, i_sb));
	struct journal_state *state = journal ? state_of(journal) : NULL;
	u64 address = (u64)inode;
	struct sync_call *sync;
	u32 tid = this_tid();

	if (!state)
		return 0;
	bpf_map_update_elem(&sync_tasks, &tid, &address, BPF_ANY);
	sync = &state->syncs[state->next_sync++ % SYNCS];
	sync->inode = address;
	sync->tid = tid;
	sync->call = have_task_contexts ? call_of(find_context(bpf_get_current_task_btf()))
					: CALL_NONE;
	return 0;
}

SEC("tp_btf/ext4_sync_file_exit")
int BPF_PROG(journal_sync_exit, struct inode *inode)
{
	NEEDED(inode);
	struct journal_s *journal = journal_of(BPF_CORE_READ(inode, i_sb));
	struct journal_state *state = journal ? state_of(journal) : NULL;
	u32 tid = this_tid();

	bpf_map_delete_elem(&sync_tasks, &tid);
	if (!state)
		return 0;
	for (u32 i = 0; i < SYNCS; i++)
		if (state->syncs[i].tid == tid)
			state->syncs[i].tid = 0;
	return 0;
}

SEC("tp_btf/ext4_sync_fs")
int BPF_PROG(journal_sync_fs, struct super_block *sb)
{
	NEEDED(sb);
	struct journal_s *journal = journal_of(sb);
	struct journal_state *state = journal ? state_of(journal) : NULL;

	if (!state)
		return 0;
	state->syncing_tid = this_tid();
	state->syncing_ns = bpf_ktime_get_ns();
	state->syncing_call = call_of(my_context());
	return 0;
}

/* The sync under way whose file waits for this transaction; NULL: none that is known. */
static __always_inline const struct sync_call *waiting_sync(struct journal_state *state,
							    u32 transaction)
{
	for (u32 i = 0; i < SYNCS; i++) {
		struct ext4_inode_info *info;

		if (!state->syncs[i].tid)
			continue;
		info = (void *)state->syncs[i].inode -
		       bpf_core_field_offset(struct ext4_inode_info, vfs_inode);
		if (BPF_CORE_READ(info, i_sync_tid) == transaction ||
		    BPF_CORE_READ(info, i_datasync_tid) == transaction)
			return &state->syncs[i];
	}
	return NULL;
}

/* Fills in why the commit begins, and who asked. */
static __always_inline void explain_commit(struct event_record *record, struct journal_s *journal,
					   struct transaction_s *transaction,
					   struct journal_state *state)
{
	u64 requested = BPF_CORE_READ(transaction, t_requested);
	bool is_synchronous = BPF_CORE_READ_BITFIELD_PROBED(transaction, t_synchronous_commit);
	bool was_asked = state->asker_tid && state->asked_transaction == (u32)record->sequence;
	const struct sync_call *sync;

	if ((u64)BPF_CORE_READ(journal, j_task) != bpf_get_current_task()) {
		record->why = EVENT_WHY_UMOUNT;
		record->asker_tid = record->tid;
		return;
	}
	if (!requested) {
		record->why = EVENT_WHY_TIMER;
		return;
	}
	/* Where the asker was seen, its wake is the begin; jiffies are coarse. */
	record->p1_ns = was_asked ? record->start_ns - state->asked_ns
				  : (jiffies() - requested) * jiffy_ns;
	if (was_asked) {
		record->asker_tid = state->asker_tid;
		record->asker_call = state->asker_call;
		record->why = state->asked_why;
		if (record->why != EVENT_WHY_ASKED)
			return;
	}
	if (is_synchronous) {
		record->why = EVENT_WHY_SYNCHRONOUS;
		return;
	}
	sync = was_asked ? NULL : waiting_sync(state, record->sequence);
	if (sync) {
		record->why = EVENT_WHY_FSYNC;
		record->asker_tid = sync->tid;
		record->asker_call = sync->call;
	} else if (!was_asked && state->syncing_tid &&
		   record->start_ns - state->syncing_ns < SYNC_FS_NS) {
		record->asker_tid = state->syncing_tid;
		record->asker_call = state->syncing_call;
		record->why = record->asker_call == CALL_SYNCFS ? EVENT_WHY_SYNCFS : EVENT_WHY_SYNC;
		state->syncing_tid = 0;
	} else if (requested >= BPF_CORE_READ(transaction, t_expires)) {
		record->why = EVENT_WHY_AGE;
	} else if (was_asked ? state->nearly_full : is_nearly_full(journal, transaction)) {
		record->why = EVENT_WHY_SIZE;
	} else {
		record->why = was_asked ? EVENT_WHY_ASKED : EVENT_WHY_UNKNOWN;
	}
}

SEC("tp_btf/jbd2_start_commit")
int BPF_PROG(journal_start_commit, struct journal_s *journal, struct transaction_s *transaction)
{
	NEEDED(journal);
	NEEDED(transaction);
	u64 now = bpf_ktime_get_ns();
	struct journal_state *state = state_of(journal);
	struct event_record *record;
	struct open_event *open;

	open = begin_event(EVENT_KIND_JBD2_COMMIT, EVENT_WHY_UNKNOWN,
			   BPF_CORE_READ(journal, j_fs_dev, bd_dev), now);
	if (!open)
		return 0;
	record = &open->message.record;
	record->sequence = BPF_CORE_READ(transaction, t_tid);
	record->p2_ns = now - BPF_CORE_READ(transaction, t_start_time);
	record->bytes = BPF_CORE_READ(journal, j_blocksize); /* times the blocks, at the end */
	open->mark_ns = now;
	open->subject = (u64)journal;
	if (state) {
		state->is_committing = true;
		explain_commit(record, journal, transaction, state);
	}
	enter_event(open);
	return 0;
}

/* A phase is over; its length. */
static __always_inline u64 next_phase(struct open_event *open, u64 now)
{
	u64 length = now - open->mark_ns;

	open->mark_ns = now;
	return length;
}

SEC("tp_btf/jbd2_commit_flushing")
int BPF_PROG(journal_flushing)
{
	struct open_event *open = find_event(EVENT_KIND_JBD2_COMMIT);

	if (open)
		open->message.record.p3_ns = next_phase(open, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/jbd2_commit_logging")
int BPF_PROG(journal_logging)
{
	struct open_event *open = find_event(EVENT_KIND_JBD2_COMMIT);

	if (open)
		open->message.record.p4_ns = next_phase(open, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/jbd2_run_stats")
int BPF_PROG(journal_run_stats, u32 dev, u32 transaction, struct transaction_run_stats_s *stats)
{
	NEEDED(stats);
	struct open_event *open = find_event(EVENT_KIND_JBD2_COMMIT);

	if (!open || (u32)open->message.record.sequence != transaction)
		return 0;
	open->message.record.count = BPF_CORE_READ(stats, rs_handle_count);
	open->message.record.blocks = BPF_CORE_READ(stats, rs_blocks_logged);
	return 0;
}

SEC("tp_btf/jbd2_end_commit")
int BPF_PROG(journal_end_commit, struct journal_s *journal)
{
	u64 now = bpf_ktime_get_ns(), key = (u64)journal;
	struct journal_state *state = bpf_map_lookup_elem(&journals, &key);
	struct open_event *open = find_event(EVENT_KIND_JBD2_COMMIT);
	struct event_counts *count;

	if (state)
		state->is_committing = false;
	if (!open) {
		count = my_counts();
		if (count)
			count->not_begun++;
		return 0;
	}
	open->message.record.p5_ns = next_phase(open, now);
	open->message.record.bytes *= open->message.record.blocks;
	end_event(open, now);
	return 0;
}

/* Forced ones, of all tasks: the most that handle starts have to look for. */
static u32 open_checkpoints;

static __always_inline void end_forced_checkpoint(struct open_event *open)
{
	__sync_fetch_and_sub(&open_checkpoints, 1);
	end_event(open, bpf_ktime_get_ns());
}

/*
 * A checkpoint that is forced, in the task that needs room in the journal. result: 1, buffers must be written; else it
 * was enough to move the journal's tail, which ends the checkpoint before.
 */
SEC("tp_btf/jbd2_checkpoint")
int BPF_PROG(journal_checkpoint, struct journal_s *journal, int result)
{
	NEEDED(journal);
	struct open_event *open = find_event(EVENT_KIND_JBD2_CHECKPOINT);
	bool is_umount;

	if (open && (result <= 0 || open->subject != (u64)journal)) {
		end_forced_checkpoint(open);
		open = NULL;
	}
	if (open || result <= 0)
		return 0;
	is_umount = BPF_CORE_READ(journal, j_flags) & JBD2_UNMOUNT;
	open = begin_event(EVENT_KIND_JBD2_CHECKPOINT,
			   is_umount ? EVENT_WHY_UMOUNT : EVENT_WHY_SPACE,
			   BPF_CORE_READ(journal, j_fs_dev, bd_dev), bpf_ktime_get_ns());
	if (!open)
		return 0;
	__sync_fetch_and_add(&open_checkpoints, 1);
	open->subject = (u64)journal;
	open->message.record.asker_call = call_of(my_context());
	enter_event(open);
	return 0;
}

/* A transaction is dropped, as all of its buffers are in place. */
SEC("tp_btf/jbd2_checkpoint_stats")
int BPF_PROG(journal_checkpoint_stats, u32 dev, u32 transaction,
	     struct transaction_chp_stats_s *stats)
{
	NEEDED(stats);
	struct open_event *open = find_event(EVENT_KIND_JBD2_CHECKPOINT);

	if (!open)
		return 0;
	open->message.record.sequence = transaction;
	open->message.record.count += BPF_CORE_READ(stats, cs_written);
	return 0;
}

/* The superblock with the new tail is written: the journal has room again. */
SEC("tp_btf/jbd2_update_log_tail")
int BPF_PROG(journal_tail, struct journal_s *journal, u32 transaction, unsigned long block,
	     unsigned long freed)
{
	struct open_event *open = find_event(EVENT_KIND_JBD2_CHECKPOINT);

	if (!open)
		return 0;
	open->message.record.blocks = freed;
	end_forced_checkpoint(open);
	return 0;
}

/*
 * A checkpoint that met a buffer of the running transaction waits for its commit, which may write the new tail itself. The
 * task then gets its handle. Hot: every handle.
 */
SEC("tp_btf/jbd2_handle_start")
int BPF_PROG(journal_handle)
{
	struct open_event *open;

	if (!*(volatile u32 *)&open_checkpoints)
		return 0;
	open = find_event(EVENT_KIND_JBD2_CHECKPOINT);
	if (open)
		end_forced_checkpoint(open);
	return 0;
}

SEC("tp_btf/ext4_fc_commit_start")
int BPF_PROG(journal_fast_start, struct super_block *sb)
{
	NEEDED(sb);
	struct open_event *open = begin_event(EVENT_KIND_JBD2_FAST_COMMIT, EVENT_WHY_FSYNC,
					      dev_of_sb(sb), bpf_ktime_get_ns());

	if (!open)
		return 0;
	open->message.record.asker_tid = this_tid();
	open->message.record.asker_call = call_of(my_context());
	enter_event(open);
	return 0;
}

SEC("tp_btf/ext4_fc_commit_stop")
int BPF_PROG(journal_fast_stop, struct super_block *sb, int blocks)
{
	struct open_event *open = find_event(EVENT_KIND_JBD2_FAST_COMMIT);

	if (!open)
		return 0;
	open->message.record.blocks = blocks > 0 ? blocks : 0;
	end_event(open, bpf_ktime_get_ns());
	return 0;
}

/* After each block group whose inode tables the thread ext4lazyinit has zeroed. */
SEC("tp_btf/ext4_lazy_itable_init")
int BPF_PROG(journal_lazy_init, struct super_block *sb, u32 group)
{
	NEEDED(sb);
	struct event_message message;

	if (!make_point(&message, EVENT_KIND_LAZY_INIT, EVENT_WHY_NONE, dev_of_sb(sb)))
		return 0;
	message.record.sequence = group;
	send(&message);
	return 0;
}

SEC("tp_btf/ext4_discard_blocks")
int BPF_PROG(journal_discard, struct super_block *sb, u64 block, u64 blocks)
{
	NEEDED(sb);
	struct event_message message;

	if (!make_point(&message, EVENT_KIND_DISCARD, EVENT_WHY_NONE, dev_of_sb(sb)))
		return 0;
	message.record.sequence = block;
	message.record.blocks = blocks;
	send(&message);
	return 0;
}

#endif
