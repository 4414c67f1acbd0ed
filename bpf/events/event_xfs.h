/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * XFS: log forces, waits for log space, pushes of the AIL (the list of logged items that are not in place yet).
 *
 * A force that waits ends as the log buffer that it waits for is written; the kernel tells when it wakes the waiters of
 * that buffer, and not for whom. Of a force that waits for no buffer only the begin is seen.
 *
 * A push has no begin and no end of its own: items that the thread xfsaild takes up less than AIL_GAP_NS apart are one,
 * of at most AIL_MOST_NS.
 */
#ifndef SEEKMETER_EVENT_XFS_H
#define SEEKMETER_EVENT_XFS_H

#include "event_state.h"

#define AIL_GAP_NS  20000000ULL
#define AIL_MOST_NS 100000000ULL

static __always_inline u32 dev_of_mount(struct xfs_mount *mount)
{
	return dev_of_sb(BPF_CORE_READ(mount, m_super));
}

static __always_inline u32 dev_of_log(struct xlog *log)
{
	return dev_of_mount(BPF_CORE_READ(log, l_mp));
}

/* Comes twice for one force where xfs_log_force() calls another function that has it: the recorder drops one of them. */
SEC("tp_btf/xfs_log_force")
int BPF_PROG(xfs_force, struct xfs_mount *mount, u64 lsn, unsigned long caller)
{
	NEEDED(mount);
	struct event_message message;

	if (!make_point(&message, EVENT_KIND_XFS_LOG_FORCE, EVENT_WHY_UNKNOWN, dev_of_mount(mount)))
		return 0;
	message.record.sequence = lsn;
	message.record.asker_tid = message.record.tid;
	message.address = caller;
	send(&message);
	return 0;
}

static __always_inline void send_step(enum event_step step, u64 log_buffer, unsigned long caller)
{
	struct event_message message;

	__builtin_memset(&message, 0, sizeof(message));
	message.record.kind = EVENT_KIND_XFS_LOG_FORCE;
	message.record.end_ns = bpf_ktime_get_ns();
	message.record.tid = this_tid();
	message.address = caller;
	message.log_buffer = log_buffer;
	message.step = step;
	send(&message);
}

/* The log's lock is held here, and as a buffer is written: the messages are in the order of what they tell. */
SEC("tp_btf/xlog_iclog_wait_on")
int BPF_PROG(xfs_log_wait, struct xlog_in_core *buffer, unsigned long caller)
{
	NEEDED(buffer);
	enum xlog_iclog_state state = BPF_CORE_READ(buffer, ic_state);
	bool is_written = state == bpf_core_enum_value(enum xlog_iclog_state, XLOG_STATE_ACTIVE) ||
			  state == bpf_core_enum_value(enum xlog_iclog_state, XLOG_STATE_DIRTY);

	send_step(EVENT_STEP_LOG_WAITS, is_written ? 0 : (u64)buffer, caller);
	return 0;
}

SEC("tp_btf/xlog_iclog_clean")
int BPF_PROG(xfs_log_done, struct xlog_in_core *buffer)
{
	NEEDED(buffer);
	send_step(EVENT_STEP_LOG_DONE, (u64)buffer, 0);
	return 0;
}

SEC("tp_btf/xfs_log_grant_sleep")
int BPF_PROG(xfs_grant_sleep, struct xlog *log, struct xlog_ticket *ticket)
{
	NEEDED(log);
	NEEDED(ticket);
	struct open_event *open = find_event(EVENT_KIND_XFS_GRANT_SLEEP);

	if (open)
		return 0; /* it wakes and sleeps again in one wait */
	open = begin_event(EVENT_KIND_XFS_GRANT_SLEEP, EVENT_WHY_SPACE, dev_of_log(log),
			   bpf_ktime_get_ns());
	if (!open)
		return 0;
	open->message.record.bytes = BPF_CORE_READ(ticket, t_unit_res);
	open->message.record.asker_call = call_of(my_context());
	enter_event(open);
	return 0;
}

SEC("tp_btf/xfs_log_grant_wake")
int BPF_PROG(xfs_grant_wake)
{
	struct open_event *open = find_event(EVENT_KIND_XFS_GRANT_SLEEP);

	if (open)
		end_event(open, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/xfs_log_cil_wait")
int BPF_PROG(xfs_cil_wait, struct xlog *log)
{
	NEEDED(log);
	struct event_message message;

	if (make_point(&message, EVENT_KIND_XFS_CIL_WAIT, EVENT_WHY_SIZE, dev_of_log(log)))
		send(&message);
	return 0;
}

static __always_inline u32 dev_of_ail(struct xfs_ail *ail)
{
	if (bpf_core_field_exists(struct xfs_ail, ail_log))
		return dev_of_log(BPF_CORE_READ(ail, ail_log));
	return dev_of_mount(BPF_CORE_READ((struct xfs_ail___mount *)ail, ail_mount));
}

/* The push under way in this thread. */
static __always_inline struct open_event *push_of(struct xfs_ail *ail, u64 lsn, u64 now)
{
	struct open_event *open = find_event(EVENT_KIND_XFS_AIL_PUSH);

	if (open && now - open->mark_ns < AIL_GAP_NS &&
	    now - open->message.record.start_ns < AIL_MOST_NS)
		return open;
	if (open)
		end_event(open, open->mark_ns);
	open = begin_event(EVENT_KIND_XFS_AIL_PUSH, EVENT_WHY_NONE, dev_of_ail(ail), now);
	if (!open)
		return NULL;
	open->message.record.sequence = lsn;
	enter_event(open);
	return open;
}

SEC("tp_btf/xfs_ail_push")
int BPF_PROG(xfs_ail_push, struct xfs_ail *ail, u32 type, unsigned long flags, u64 lsn)
{
	NEEDED(ail);
	u64 now = bpf_ktime_get_ns();
	struct open_event *open = push_of(ail, lsn, now);

	if (!open)
		return 0;
	open->message.record.count++;
	open->mark_ns = now;
	return 0;
}

/* An item that can't be pushed: its last change is not in the log yet. */
SEC("tp_btf/xfs_ail_pinned")
int BPF_PROG(xfs_ail_pinned, struct xfs_ail *ail, u32 type, unsigned long flags, u64 lsn)
{
	NEEDED(ail);
	u64 now = bpf_ktime_get_ns();
	struct open_event *open = push_of(ail, lsn, now);

	if (!open)
		return 0;
	open->message.record.why = EVENT_WHY_PINNED;
	open->message.record.blocks++;
	open->mark_ns = now;
	return 0;
}

#endif
