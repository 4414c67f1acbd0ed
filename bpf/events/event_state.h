/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Open events, their records on the way to the recorder, and what other programs are told of them (task_context.h).
 *
 * An event that lasts belongs to the task that is in it: one of each kind a task. Kinds may nest; at its end the task's
 * context is that of the event around it again.
 */
#ifndef SEEKMETER_EVENT_STATE_H
#define SEEKMETER_EVENT_STATE_H

#include "event_kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "common/over.h"
#include "common/records.h"
#include "common/task_context.h"

#define OPEN_EVENTS	   8192
#define BUDGET_NS	   100000000ULL
#define BYTES_A_PAGE_SHIFT 12

/*
 * The verifier of newer kernels takes arguments of a module's tracepoint for pointers that may be NULL, and lets nobody
 * read behind them before this.
 */
#define NEEDED(pointer)           \
	do {                      \
		if (!(pointer))   \
			return 0; \
	} while (0)

/* Set before loading. */
const volatile u32 cpus = 1;
const volatile u64 jiffy_ns = 4000000;
/* Events of one kind that a CPU records in BUDGET_NS; of windows of readahead, which are many, a part. */
const volatile u32 budget = 256;
#define AHEAD_PART 32

TASK_CONTEXTS

#define NEST_DEPTHS 4 /* task, softirq, interrupt, and one more */

struct event_budget {
	u64 since_ns;
	u32 depth; /* of next_number(), which interrupts nest */
	u32 next_number[NEST_DEPTHS];
	u32 used[EVENT_KINDS];
};

/* Keeps the records' layouts in this object's BTF, where the recorder reads them. */
struct event_record *event_record_used;
struct dirtied_record *dirtied_record_used;

static struct open_event no_event; /* what a new entry is filled with */

/* Room for 24,000 messages: the most of some 10 ms within the budget. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} messages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OPEN_EVENTS);
	__type(key, struct event_key);
	__type(value, struct open_event);
} open_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct event_budget);
} budgets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct event_counts);
} counts SEC(".maps");

/* NULL, too, when the recording is over. */
static __always_inline struct event_counts *my_counts(void)
{
	u32 zero = 0;

	return is_over ? NULL : bpf_map_lookup_elem(&counts, &zero);
}

static __always_inline u32 this_tid(void)
{
	return bpf_get_current_pid_tgid();
}

/*
 * Counts this CPU's events. A program may interrupt another here: each depth has a range of numbers of its own, as an addition
 * that returns the sum came with Linux kernel commit 5ca419f2864a ("bpf: Add BPF_FETCH field / create atomic_fetch_add
 * instruction") (in v5.12).
 */
static __always_inline u32 next_number(struct event_budget *mine)
{
	volatile struct event_budget *here = mine;
	u32 depth = here->depth, at = depth & (NEST_DEPTHS - 1);
	u32 range = ~0U / cpus, number;

	here->depth = depth + 1;
	number = here->next_number[at];
	here->next_number[at] = number + 1;
	here->depth = depth;
	return at ? range - (range >> at) + number : number;
}

/* The number of a new event; 0: too many of this kind came on this CPU of late, and it is only counted. */
static __always_inline u32 new_id(enum event_kind kind, u64 now)
{
	u32 zero = 0;
	struct event_budget *mine = bpf_map_lookup_elem(&budgets, &zero);
	struct event_counts *count = my_counts();

	if (!mine || !count || kind >= EVENT_KINDS)
		return 0;
	count->seen[kind]++;
	if (now - mine->since_ns > BUDGET_NS) {
		mine->since_ns = now;
		__builtin_memset(mine->used, 0, sizeof(mine->used));
	}
	if (mine->used[kind] >= (kind == EVENT_KIND_READAHEAD ? budget / AHEAD_PART : budget)) {
		count->over_budget[kind]++;
		return 0;
	}
	mine->used[kind]++;
	return next_number(mine) * cpus + bpf_get_smp_processor_id() + 1;
}

static __always_inline struct task_context *my_context(void)
{
	return have_task_contexts ? make_context(bpf_get_current_task_btf()) : NULL;
}

/* Fills in the members that all events have. */
static __always_inline void describe(struct event_record *record, enum event_kind kind,
				     enum event_why why, u32 dev, u64 now)
{
	record->start_ns = now;
	record->asker_call = CALL_NONE;
	record->kind = kind;
	record->why = why;
	record->dev = dev;
	record->tid = this_tid();
	bpf_get_current_comm(record->comm, sizeof(record->comm));
}

static __always_inline void send(const struct event_message *message)
{
	struct event_counts *count;

	/* The recorder polls: a wake for each record would cost more than the record. */
	if (!bpf_ringbuf_output(&messages, (void *)message, sizeof(*message), BPF_RB_NO_WAKEUP))
		return;
	count = my_counts();
	if (count)
		count->ring_full++;
}

static __always_inline struct open_event *find_event(enum event_kind kind)
{
	struct event_key key = { .tid = this_tid(), .kind = kind };

	return bpf_map_lookup_elem(&open_events, &key);
}

static __always_inline void forget_event(enum event_kind kind)
{
	struct event_key key = { .tid = this_tid(), .kind = kind };

	bpf_map_delete_elem(&open_events, &key);
}

static __always_inline void leave_event(struct open_event *open)
{
	struct task_context *context;

	if (!open->has_context)
		return;
	open->has_context = false;
	context = my_context();
	if (!context)
		return;
	context->event_id = open->outer_id;
	context->event_kind = open->outer_kind;
}

/* The event begins again, and its end was not seen: it has no record. */
static __always_inline void give_up_event(struct open_event *open)
{
	struct event_counts *count = my_counts();

	leave_event(open);
	if (count && open->is_recorded)
		count->begin_again++;
}

/* Begins an event of the current task. NULL: no room. The caller adds to the record and then calls enter_event(). */
static __always_inline struct open_event *begin_event(enum event_kind kind, enum event_why why,
						      u32 dev, u64 now)
{
	struct event_key key = { .tid = this_tid(), .kind = kind };
	struct event_counts *count;
	struct open_event *open;
	u32 id;
	long err;

	if (is_over)
		return NULL;
	id = new_id(kind, now);
	err = bpf_map_update_elem(&open_events, &key, &no_event, BPF_NOEXIST);
	if (err == -EEXIST) {
		open = bpf_map_lookup_elem(&open_events, &key);
		if (open)
			give_up_event(open);
		err = bpf_map_update_elem(&open_events, &key, &no_event, BPF_ANY);
	}
	if (err) {
		count = my_counts();
		if (count)
			count->no_room++;
		return NULL;
	}
	open = bpf_map_lookup_elem(&open_events, &key);
	if (!open)
		return NULL;
	describe(&open->message.record, kind, why, dev, now);
	open->message.record.event_id = id;
	open->is_recorded = id != 0;
	return open;
}

/* Tells the other programs that the current task works for this event. */
static __always_inline void enter_event(struct open_event *open)
{
	struct task_context *context = my_context();

	if (!context)
		return;
	open->has_context = true;
	open->outer_id = context->event_id;
	open->outer_kind = context->event_kind;
	open->message.record.parent_id = context->event_id;
	context->event_id = open->message.record.event_id;
	context->event_kind = open->message.record.kind;
}

/* It turned out that nothing was done. */
static __always_inline void drop_event(enum event_kind kind)
{
	struct event_counts *count = my_counts();

	if (!count || kind >= EVENT_KINDS)
		return;
	count->seen[kind]--;
	count->empty++;
}

/* Ends an open event of the current task, and hands it over. */
static __always_inline void end_event(struct open_event *open, u64 now)
{
	enum event_kind kind = open->message.record.kind;

	if (is_over) /* the recorder writes it as open */
		return;
	open->message.record.end_ns = now;
	leave_event(open);
	if (open->is_recorded)
		send(&open->message);
	else if (open->message.record.event_id)
		drop_event(kind);
	forget_event(kind);
}

/* The call that the task is in; none, too, if calls are not recorded. */
static __always_inline enum call_name call_of(struct task_context *context)
{
	if (!context || context->call_is_over || !context->call)
		return CALL_NONE;
	return context->call - 1;
}

/* Fills in an event without an end. False: it is only counted. */
static __always_inline bool make_point(struct event_message *message, enum event_kind kind,
				       enum event_why why, u32 dev)
{
	struct task_context *context;
	u64 now = bpf_ktime_get_ns();
	u32 id = new_id(kind, now);

	if (!id)
		return false;
	__builtin_memset(message, 0, sizeof(*message));
	describe(&message->record, kind, why, dev, now);
	message->record.end_ns = now;
	message->record.event_id = id;
	context = my_context();
	if (!context)
		return true;
	message->record.parent_id = context->event_id;
	message->record.asker_call = call_of(context);
	return true;
}

static __always_inline u32 dev_of_sb(struct super_block *sb)
{
	return sb ? BPF_CORE_READ(sb, s_dev) : 0;
}

#endif
