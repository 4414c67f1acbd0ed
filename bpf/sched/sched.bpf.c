// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Switches and wakes, one record each, for the critical path: who ran on which CPU, who woke whom, and from where.
 *
 * Logged are the workload's threads, kernel threads except RCU's, and whoever wakes a thread of the workload. A switch has a
 * record if the thread that goes or the one that comes is logged; a wake has one if the woken thread is. Of other
 * threads a switch tells the role only: the CPU's occupancy while a logged thread waits for it.
 *
 * A record is complete or not there, on all CPUs at once: over a budget of events the recorder sets given_up, and the
 * programs only count until it clears it (collectors/sched/sched_windows.h). A path is broken by one missing event, so
 * events are never dropped one by one.
 *
 * A context is made where a task is woken, wakes, or begins, not at a switch: the allocation may wake kswapd, which
 * must not happen with the run queue locked.
 */
#include "common/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "common/records.h"
#include "common/rings.h"
#include "common/task_context.h"
#include "common/thread_number.h"
#include "common/tasks.h"

#include "sched_state.h"
#include "sched_wake.h"
#include "common/thread_role.h"

/* linux/sched.h */
#define TASK_INTERRUPTIBLE   0x0001
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_STOPPED	     0x000c /* __TASK_STOPPED, __TASK_TRACED */
#define TASK_DEAD	     0x0080
#define TASK_NOLOAD	     0x0400
#define PF_KSWAPD	     0x00020000

char LICENSE[] SEC("license") = "Dual BSD/GPL";

TASK_CONTEXTS
THREAD_NUMBERS

/* Keep the records' layouts in this object's BTF, where the recorder reads them. */
struct switch_record *switch_record_used;
struct wake_record *wake_record_used;

/* Values of task_context.is_logged. */
enum { LOGGED_UNDECIDED, LOGGED, LOGGED_NOT };

/* struct task_struct before Linux kernel commit 2f064a59a11f ("sched: Change task_struct::state") (in v5.14) */
struct task_struct___state {
	long state;
} __attribute__((preserve_access_index));

/* One side of a switch or wake. */
struct side {
	u32 thread;
	enum thread_role role;
	bool logged;
};

static __always_inline bool is_rcu(struct task_struct *task)
{
	return task->comm[0] == 'r' && task->comm[1] == 'c' && task->comm[2] == 'u';
}

static __always_inline void decide(struct task_struct *task, struct task_context *context)
{
	if (context->role == THREAD_ROLE_WORKLOAD)
		context->is_logged = LOGGED;
	else if (context->role == THREAD_ROLE_KERNEL)
		context->is_logged = is_rcu(task) ? LOGGED_NOT : LOGGED;
}

/* is_current: the task has the CPU, so its cgroup can be asked for. */
static __always_inline void look_at(struct side *side, struct task_struct *task,
				    struct task_context *context, bool is_current)
{
	side->thread = 0;
	side->logged = false;
	if (!task->pid) {
		side->role = THREAD_ROLE_IDLE;
		return;
	}
	side->role = context ? context->role : THREAD_ROLE_UNKNOWN;
	if (!role_is_settled(side->role)) {
		if (is_current)
			side->role = role_of_current();
		else if (side->role == THREAD_ROLE_UNKNOWN)
			side->role = role_of_task(task);
		if (context && context->role != side->role)
			context->role = side->role;
	}
	if (!context)
		return;
	if (context->is_logged == LOGGED_UNDECIDED)
		decide(task, context);
	if (context->is_logged != LOGGED)
		return;
	side->logged = true;
	side->thread = thread_number(context);
}

static __always_inline u32 state_now(struct task_struct *task)
{
	struct task_struct___state *older = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return BPF_CORE_READ(older, state);
}

static __always_inline enum switch_state state_of(struct task_struct *prev, bool preempted,
						  u32 state)
{
	/* The scheduler has set a sleeper's state back if a signal is pending; until 6.12 the argument has the older one. */
	if (preempted || !state || !state_now(prev))
		return SWITCH_STATE_PREEMPTED;
	if (state & TASK_DEAD)
		return SWITCH_STATE_ENDED;
	if (state & TASK_STOPPED || !(state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)))
		return SWITCH_STATE_OTHER;
	if (BPF_CORE_READ_BITFIELD(prev, in_iowait))
		return SWITCH_STATE_IO_WAIT;
	if (state & TASK_INTERRUPTIBLE || state & TASK_NOLOAD)
		return SWITCH_STATE_SLEEPING;
	return SWITCH_STATE_BLOCKED;
}

SEC("tp_btf/sched_switch")
int switched(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct task_context *of_prev = NULL, *of_next = NULL;
	u32 cpu = bpf_get_smp_processor_id();
	struct sched_counts *count = my_counts();
	struct switch_record *record;
	struct side from, to;
	struct ring *ring;
	u64 now;

	count->switches++;
	if (given_up.since_ns) {
		count->skipped_switches++;
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (prev->pid)
		of_prev = find_context(prev);
	if (next->pid)
		of_next = find_context(next);
	if ((prev->pid && !of_prev) || (next->pid && !of_next))
		count->no_storage++;
	look_at(&from, prev, of_prev, true);
	look_at(&to, next, of_next, false);
	if (!from.logged && !to.logged)
		return 0;
	ring = bpf_map_lookup_elem(&switch_rings, &cpu);
	if (!ring)
		return 0;
	record = next_in_ring(ring, ring_mask, sizeof(*record));
	if (!record) {
		give_up(now);
		return 0;
	}
	record->t_ns = now;
	record->prev = from.thread;
	record->next = to.thread;
	record->state = state_of(prev, ctx[0] & 1, have_prev_state ? ctx[3] : state_now(prev));
	record->stack_id = -1;
	if (of_prev && record->state != SWITCH_STATE_PREEMPTED &&
	    record->state != SWITCH_STATE_ENDED)
		record->stack_id = of_prev->sleep_stack_id;
	record->cpu = cpu;
	record->prev_role = from.role;
	record->next_role = to.role;
	advance_ring(ring);
	return 0;
}

/* The record of a wake of a logged task by the current one, or in an interrupt. */
static __always_inline void write_wake(u64 now, const struct side *wakee, bool is_new)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 cpu = bpf_get_smp_processor_id();
	enum cpu_context cpu_context = cpu_context_now();
	struct task_context *context = NULL;
	struct wake_record *wake;
	struct side waker;
	struct ring *ring;
	bool in_task = cpu_context == CPU_CONTEXT_TASK || is_new;

	if (task->pid)
		context = in_task ? make_context(task) : find_context(task);
	look_at(&waker, task, context, in_task);
	/* Who wakes the workload has a part in its path. */
	if (in_task && context && wakee->role == THREAD_ROLE_WORKLOAD && !waker.logged) {
		context->is_logged = LOGGED;
		waker.logged = true;
		waker.thread = thread_number(context);
	}
	ring = bpf_map_lookup_elem(&wake_rings, &cpu);
	if (!ring)
		return;
	wake = next_in_ring(ring, wake_ring_mask, sizeof(*wake));
	if (!wake) {
		give_up(now);
		return;
	}
	__builtin_memset(wake, 0, sizeof(*wake));
	wake->t_ns = now;
	wake->wakee = wakee->thread;
	wake->wakee_role = wakee->role;
	wake->waker = waker.thread;
	wake->waker_role = waker.role;
	wake->cpu = cpu;
	wake->context = cpu_context;
	wake->is_new = is_new;
	if (in_task) {
		if (task->flags & PF_WQ_WORKER)
			wake->sector = function_of_kworker(task);
		if (wake->sector)
			wake->cause = WAKE_CAUSE_WORK;
	} else if (cpu_context != CPU_CONTEXT_UNKNOWN) {
		note_interrupt(wake, task->pid);
	}
	advance_ring(ring);
}

SEC("tp_btf/sched_waking")
int waking(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct sched_counts *count = my_counts();
	struct task_context *context;
	struct side wakee;
	u64 now;

	count->wakes++;
	if (given_up.since_ns) {
		count->skipped_wakes++;
		return 0;
	}
	now = bpf_ktime_get_ns();
	/* To wake kswapd while it is being woken would lock it twice. */
	context = task->flags & PF_KSWAPD ? find_context(task) : make_context(task);
	if (!context)
		count->no_context++;
	look_at(&wakee, task, context, false);
	if (wakee.logged)
		write_wake(now, &wakee, false);
	return 0;
}

/* A thread begins. It is in the cgroup of its parent, which is the current task. */
SEC("tp_btf/task_newtask")
int begun(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0], *parent = bpf_get_current_task_btf();
	struct sched_counts *count = my_counts();
	struct task_context *context;
	struct side wakee, of_parent;

	count->wakes++;
	context = make_context(task);
	if (!context) {
		count->no_context++;
		return 0;
	}
	/* Noted even if no record is written: its wakes in later windows need it. */
	look_at(&of_parent, parent, find_context(parent), true);
	if (of_parent.role == THREAD_ROLE_WORKLOAD)
		context->role = THREAD_ROLE_WORKLOAD;
	if (given_up.since_ns) {
		count->skipped_wakes++;
		return 0;
	}
	look_at(&wakee, task, context, false);
	if (wakee.logged)
		write_wake(bpf_ktime_get_ns(), &wakee, true);
	return 0;
}
