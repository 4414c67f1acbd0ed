// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Time of each thread by state: running, runnable, asleep; with stack, call, lock and work of a sleep.
 *
 * The programs follow each thread from switch to wake to switch. A thread's open interval is in its slot; when it ends, its
 * length is added to the sums of the time bin, or handed to the recorder where a border of bins is crossed. No event
 * leaves the kernel for a switch.
 *
 * Runnable time begins at sched_wakeup, when the thread is put on a run queue: as the kernel's own run delay. A sleep lasts
 * until then. All of these tracepoints are hit under the lock of the thread's run queue.
 */
#include "common/kernel.h"

#define __VMLINUX_H__ /* kernel.h names the registers as the kernel does, and bpf_tracing.h asks for that */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "common/records.h"

#include "thread_identity.h"
#include "thread_samples.h"
#include "thread_stacks.h"
#include "thread_state.h"
#include "thread_sums.h"
#include "thread_works.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* A switch or wake-up is seen at most so late; a longer difference is stolen time, or an event that was not seen. */
#define LATE_MOST_NS 10000000

/* Keeps the record's layout in this object's BTF, where the recorder reads it. */
struct thread_time_record *thread_time_record_used;

/* Programs may be interrupted by a sample: see bin_epoch.h. */
static __always_inline struct bin_epoch *enter(void)
{
	struct bin_epoch *epoch = &epochs[bpf_get_smp_processor_id() & (BIN_CPUS - 1)];

	*(volatile u64 *)&epoch->inside += 1;
	return epoch;
}

static __always_inline void leave(struct bin_epoch *epoch)
{
	*(volatile u64 *)&epoch->inside -= 1;
}

/* The open interval is one of this state, without stack, call and the like. */
static __always_inline void set_state(struct thread_slot *slot, enum thread_state state)
{
	slot->key.lock = 0;
	slot->key.stack_id = -1;
	slot->key.work = 0;
	slot->key.state = state;
	slot->key.by = THREAD_ROLE_UNKNOWN;
	slot->key.call = CALL_NONE;
	slot->key.call_target = CALL_TARGET_UNKNOWN;
	slot->key.lock_kind = THREAD_LOCK_NONE;
	slot->key.in_transaction = 0;
}

static __always_inline void begin_state(struct thread_slot *slot, enum thread_state state,
					const struct moment *now)
{
	slot->since_ns = now->ns;
	slot->since_bin = now->bin;
	set_state(slot, state);
}

/* Adds the open interval, all of it under its key. */
static __always_inline void end_state(struct thread_slot *slot, const struct moment *now,
				      struct thread_counts *count)
{
	struct piece piece = { .begin_ns = slot->since_ns,
			       .begin_bin = slot->since_bin,
			       .end_ns = now->ns,
			       .end_bin = now->bin };

	if (now->ns <= slot->since_ns)
		return;
	piece.whole_ns = now->ns - slot->since_ns;
	add_time(slot, &piece, count);
}

/* How long the present task of a CPU has run. */
static __always_inline u64 present_run_ns(const struct cpu_time *of_cpu, u64 now_ns)
{
	return of_cpu->since_ns && now_ns > of_cpu->since_ns ? now_ns - of_cpu->since_ns : 0;
}

/* The CPU's present run ends, as far as it is not counted yet. */
static __always_inline void end_cpu_run(struct cpu_time *of_cpu, u64 at_ns)
{
	of_cpu->last_ns = present_run_ns(of_cpu, at_ns);
	of_cpu->last_role = of_cpu->role;
	of_cpu->ran_ns[of_cpu->role % THREAD_ROLES] += of_cpu->last_ns;
	if (at_ns > of_cpu->since_ns)
		of_cpu->since_ns = at_ns;
}

/* Notes who has run on a CPU so far, to know later who ran while the thread waited for the CPU. */
static __always_inline void note_runners(struct thread_slot *slot, u32 cpu, u64 now_ns)
{
	struct cpu_time *of_cpu = &cpu_times[cpu & (BIN_CPUS - 1)];

	slot->cpu = cpu;
	for (u32 i = 0; i < THREAD_ROLES; i++)
		slot->ran_ns[i] = of_cpu->ran_ns[i];
	slot->ran_ns[of_cpu->role % THREAD_ROLES] += present_run_ns(of_cpu, now_ns);
}

/*
 * The thread waits for another CPU from now on. What is noted becomes the new CPU's, less what has run on the old one while
 * the thread waited for that. The new CPU, where it is not this one, may be in a switch meanwhile: then its last run counts
 * twice, or not.
 */
static __always_inline void move_runners(struct thread_slot *slot, u32 cpu, u64 now_ns)
{
	struct cpu_time *from = &cpu_times[slot->cpu & (BIN_CPUS - 1)];
	struct cpu_time *to = &cpu_times[cpu & (BIN_CPUS - 1)];

	slot->cpu = cpu;
	for (u32 i = 0; i < THREAD_ROLES; i++)
		slot->ran_ns[i] += to->ran_ns[i] - from->ran_ns[i];
	slot->ran_ns[to->role % THREAD_ROLES] += present_run_ns(to, now_ns);
	slot->ran_ns[from->role % THREAD_ROLES] -= present_run_ns(from, now_ns);
}

/*
 * The role that ran longest on the CPU while the thread waited, and for how long. Where the thread was moved to this CPU
 * unseen, who ran here last is known, not who ran there.
 */
static __always_inline u32 longest_runner(struct thread_slot *slot, const struct cpu_time *of_cpu,
					  u32 cpu, u64 wait_ns, u64 *most_ns)
{
	u64 last_ns = of_cpu->last_ns < wait_ns ? of_cpu->last_ns : wait_ns;
	u8 longest = THREAD_ROLE_UNKNOWN;

	*most_ns = 0;
	if (slot->cpu != cpu) {
		for (u32 i = 0; i < THREAD_ROLES; i++)
			slot->ran_ns[i] = of_cpu->ran_ns[i];
		slot->ran_ns[of_cpu->last_role % THREAD_ROLES] -= last_ns;
	}
	for (u32 i = 1; i < THREAD_ROLES; i++) {
		s64 ran_ns = of_cpu->ran_ns[i] - slot->ran_ns[i];

		if (ran_ns > (s64)*most_ns) {
			*most_ns = ran_ns;
			*(volatile u8 *)&longest = i;
		}
	}
	return *(volatile u8 *)&longest;
}

/* A wait for a CPU has ended: leaves in ran_ns who ran on the CPU meanwhile, and how long. Not static: see add_time(). */
__noinline int end_wait(struct thread_slot *slot, const struct moment *now, u32 cpu)
{
	struct cpu_time *of_cpu = &cpu_times[cpu & (BIN_CPUS - 1)];
	u64 left_ns, most_ns;
	u32 longest;

	if (!slot || !now || now->ns <= slot->since_ns)
		return 0;
	left_ns = now->ns - slot->since_ns;
	longest = longest_runner(slot, of_cpu, cpu, left_ns, &most_ns);
	/* Without a loop: clang makes this one fall into its own head, which the verifier of 6.1 refuses. */
#pragma clang loop unroll(full)
	for (u32 i = 1; i < THREAD_ROLES; i++) {
		s64 ran_ns = of_cpu->ran_ns[i] - slot->ran_ns[i];

		slot->ran_ns[i] = 0;
		if (ran_ns <= 0 || i == longest || most_ns >= left_ns)
			continue;
		if (ran_ns > left_ns - most_ns)
			ran_ns = left_ns - most_ns;
		left_ns -= ran_ns;
		slot->ran_ns[i] = ran_ns;
	}
	slot->ran_ns[THREAD_ROLE_UNKNOWN] = left_ns > most_ns ? left_ns - most_ns : 0;
	slot->waited_by = longest;
	slot->wait_begin_ns = slot->since_ns;
	slot->wait_begin_bin = slot->since_bin;
	slot->wait_end_ns = now->ns;
	slot->wait_end_bin = now->bin;
	return 0;
}

/* Adds the wait that end_wait() has left, split by who ran, under the key's call, work and the like. */
__noinline int add_wait(struct thread_slot *slot, struct thread_counts *count)
{
	struct piece piece = {};

	if (!slot || !count || !slot->wait_end_ns)
		return 0;
	piece.begin_ns = slot->wait_begin_ns;
	piece.begin_bin = slot->wait_begin_bin;
	piece.end_bin = slot->wait_end_bin;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < THREAD_ROLES; i++) {
		if (!slot->ran_ns[i] || i == slot->waited_by)
			continue;
		piece.end_ns = piece.begin_ns + slot->ran_ns[i];
		slot->key.by = i;
		add_time(slot, &piece, count);
		piece.begin_ns = piece.end_ns;
	}
	piece.end_ns = slot->wait_end_ns;
	piece.whole_ns = piece.end_ns - slot->wait_begin_ns;
	slot->key.by = slot->waited_by;
	slot->waited_ns = piece.whole_ns;
	slot->waited_last_ns = piece.begin_bin == piece.end_bin ? piece.end_ns - piece.begin_ns : 0;
	slot->wait_end_ns = 0;
	return add_time(slot, &piece, count);
}

/*
 * Adds the wait for a CPU before a run that ends. A kworker that waited without a work did so for the work that it has run
 * since. Called before the run is added, so that sums come in order.
 */
static __separate int add_wait_of_run(struct thread_slot *slot, struct task_struct *task,
				      struct thread_counts *count)
{
	enum thread_state state = slot->key.state;

	slot->key.state = THREAD_STATE_RUNNABLE;
	if (((struct task_struct___time *)task)->flags & PF_WQ_WORKER)
		slot->key.work = work_of(task, slot, true);
	add_wait(slot, count);
	slot->key.state = state;
	slot->key.by = THREAD_ROLE_UNKNOWN;
	return 0;
}

static __always_inline void note_lock(struct thread_time_key *key, struct task_struct *task)
{
	struct task_struct___time *of = (void *)task;
	u64 blocker;

	if (!bpf_core_field_exists(of->blocker))
		return;
	blocker = of->blocker;
	if (!blocker)
		return;
	key->lock = blocker & ~3ULL;
	key->lock_kind = THREAD_LOCK_MUTEX + (blocker & 3);
}

/* How the current task leaves its CPU, from its state. */
static __always_inline enum thread_state sleep_state(struct task_struct *task, u32 state)
{
	if (BPF_CORE_READ_BITFIELD(task, in_iowait) &&
	    state & (TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE))
		return THREAD_STATE_IO_WAIT;
	if (state & TASK_UNINTERRUPTIBLE)
		return state & TASK_NOLOAD ? THREAD_STATE_SLEEPING : THREAD_STATE_BLOCKED;
	return state & TASK_INTERRUPTIBLE ? THREAD_STATE_SLEEPING : THREAD_STATE_OTHER;
}

static __always_inline void fall_asleep(void *ctx, struct task_struct *task, u32 flags, u32 state,
					struct thread_slot *slot, struct task_context *context,
					struct thread_counts *count)
{
	struct task_struct___time *of = (void *)task;
	struct thread_time_key *key = &slot->key;
	u8 fault = fault_now(context, task);

	key->state = sleep_state(task, state);
	key->stack_id = context->sleep_stack_id = stack_of_sleep(ctx, task, flags, count);
	key->in_transaction = of->journal_info != NULL;
	note_lock(key, task);
	if (fault) {
		key->call = fault - 1;
		key->call_target = context->fault_target;
	} else if (context->call && !context->call_is_over) {
		key->call = context->call - 1;
		key->call_target = context->call_target;
	}
	if (flags & PF_WQ_WORKER)
		key->work = work_of(task, slot, false);
}

/* The thread has run for the last time. The recorder gets its slot, and finds those it was not told of at the end. */
static __separate int end_thread(struct thread_slot *slot, struct task_struct *task, u32 at,
				 u64 now_ns)
{
	struct thread_event *event;

	read_names(slot, task);
	read_truth(&slot->after, task);
	slot->end_ns = now_ns;
	event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);
	/* The recorder takes an exchange as a barrier: it reads what stands above. */
	__sync_val_compare_and_swap(&slot->use, THREAD_SLOT_TAKEN, THREAD_SLOT_ENDED);
	if (!event)
		return 0;
	event->kind = THREAD_EVENT_ENDED;
	event->slot = at;
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

/* A slot that the recorder has taken says when the thread was seen first; the rest is read at its first event. */
static __separate int see_first(struct thread_slot *slot, struct task_struct *task,
				struct task_context *context)
{
	u64 run_ns = slot->before.run_ns, run_delay_ns = slot->before.run_delay_ns;

	fill_slot(slot, task, slot->number);
	note_role(slot, context, role_outside(task));
	read_truth(&slot->before, task);
	slot->before.run_ns = run_ns;
	slot->before.run_delay_ns = run_delay_ns;
	slot->after.blkio_delay_ns = slot->before.blkio_delay_ns;
	slot->is_guessed = 0;
	return 0;
}

/* The slot of the current task, whose context another collector has made: it is seen from here on. */
static __separate int begin_late(struct task_struct *task, struct task_context *context,
				 enum thread_state state)
{
	struct moment now = moment_now();
	struct thread_slot *slot;

	if (!take_slot(task, context)) {
		context->sleep_stack_id = -1; /* nobody takes its stacks */
		return 0;
	}
	slot = slot_of(context);
	if (!slot)
		return 0;
	slot->start_ns = now.ns;
	note_role(slot, context, role_of(task));
	read_truth(&slot->before, task);
	slot->after.blkio_delay_ns = slot->before.blkio_delay_ns;
	begin_state(slot, state, &now);
	return 0;
}

/* Running time of a task without a slot: thread 0. */
static __always_inline void add_unnumbered(struct cpu_time *of_cpu, u32 cpu,
					   const struct moment *now, struct thread_counts *count)
{
	struct thread_time_key key = { .stack_id = -1,
				       .work = cpu + 1,
				       .state = THREAD_STATE_RUNNING,
				       .call = CALL_NONE,
				       .call_target = CALL_TARGET_UNKNOWN };
	struct piece piece = { .begin_ns = of_cpu->since_ns,
			       .begin_bin = bin_of(&cuts, bin_ns, of_cpu->since_ns),
			       .end_ns = now->ns,
			       .end_bin = now->bin,
			       .whole_ns = now->ns - of_cpu->since_ns };

	struct thread_time_sum *sum;

	count->no_context++;
	if (!of_cpu->since_ns || now->ns <= of_cpu->since_ns)
		return;
	count->intervals++;
	sum = piece.begin_bin == piece.end_bin ? sum_of(&key, piece.end_bin, count) : NULL;
	if (sum)
		add_piece(sum, &piece);
	else
		pass_on(&key, &piece, count);
}

/*
 * What a thread has run since the last switch to or from it that was seen, by the scheduler's account, which is up to date
 * at each switch from a thread.
 */
static __always_inline u64 run_ns_of(const struct thread_slot *slot, struct task_struct *task)
{
	u64 total_ns = BPF_CORE_READ((struct task_struct___time *)task, se.sum_exec_runtime);

	return total_ns - slot->ran_total_ns;
}

/* When the run that the open interval began with ended. By its length, of another clock, that may lie a little beyond now. */
static __always_inline u64 end_of_run(const struct thread_slot *slot, struct task_struct *task,
				      const struct moment *now)
{
	u64 end_ns = slot->since_ns + run_ns_of(slot, task);

	return end_ns < now->ns ? end_ns : now->ns;
}

/* Ends the open interval at a moment that has gone by unseen. */
static __always_inline void end_state_at(struct thread_slot *slot, u64 at_ns,
					 const struct moment *now, struct thread_counts *count)
{
	struct piece piece = { .begin_ns = slot->since_ns,
			       .begin_bin = slot->since_bin,
			       .end_ns = at_ns,
			       .whole_ns = at_ns - slot->since_ns };

	if (at_ns <= slot->since_ns || at_ns > now->ns)
		return;
	piece.end_bin = bin_of(&cuts, bin_ns, at_ns);
	if (piece.end_bin == now->bin) {
		add_time(slot, &piece, count);
	} else {
		/* The recorder may be emptying that bin. */
		count->intervals++;
		pass_on(&slot->key, &piece, count);
	}
	slot->since_ns = at_ns;
	slot->since_bin = piece.end_bin;
}

/*
 * The thread leaves a CPU, and was not seen to get it. Programs do not run where they would interrupt themselves, nor, under
 * some hypervisors' kernels, in the context of process 1. Who left the CPU unseen was present until this run began, as far as
 * known. A wait for the CPU is left to add_wait_of_run(): from here that would take more stack than 6.1 has.
 */
static __separate int begin_unseen_run(struct thread_slot *slot, struct task_struct *task,
				       const struct moment *now, u32 cpu,
				       struct thread_counts *count)
{
	struct cpu_time *of_cpu = &cpu_times[cpu & (BIN_CPUS - 1)];
	/* The bin of now: a wait that began in an earlier one is passed on, as in end_state_at(). */
	const struct moment begin = { .ns = now->ns - run_ns_of(slot, task), .bin = now->bin };

	count->run_missed++;
	/* Until then ran whom end_unseen_end() has ended, or others that left unseen, too: threads of the same process, mostly. */
	if (begin.ns > of_cpu->since_ns)
		end_cpu_run(of_cpu, begin.ns);
	of_cpu->role = slot->role;
	if (slot->key.state != THREAD_STATE_RUNNABLE) {
		end_state_at(slot, begin.ns, now, count);
	} else if (begin.ns > slot->since_ns && begin.ns <= now->ns) {
		end_wait(slot, &begin, cpu);
		slot->since_ns = begin.ns;
		slot->since_bin = bin_of(&cuts, bin_ns, begin.ns);
	}
	set_state(slot, THREAD_STATE_RUNNING);
	return 0;
}

/* The thread is woken, and was not seen to fall asleep. */
static __separate int begin_unseen_sleep(struct thread_slot *slot, struct task_struct *task,
					 const struct moment *now, struct thread_counts *count)
{
	count->sleep_missed++;
	if (slot->wait_end_ns)
		add_wait_of_run(slot, task, count);
	end_state_at(slot, end_of_run(slot, task, now), now, count);
	slot->ran_total_ns = ((struct task_struct___time *)task)->se.sum_exec_runtime;
	set_state(slot, THREAD_STATE_SLEEPING);
	return 0;
}

/* The thread gets a CPU, and was not seen to leave one. It could have gone on, as nobody has woken it. */
static __separate int begin_unseen_wait(struct thread_slot *slot, struct task_struct *task,
					const struct moment *now, struct thread_counts *count)
{
	count->wait_missed++;
	end_state_at(slot, end_of_run(slot, task, now), now, count);
	set_state(slot, THREAD_STATE_RUNNABLE);
	return 0;
}

/*
 * The CPU's present task, as far as known, is not the one that leaves it: its own way off was not seen. The scheduler's account
 * says how long it ran; it is taken to sleep since, and the task that leaves now to have run.
 */
static __separate int end_unseen_end(struct cpu_time *of_cpu, struct task_struct *prev,
				     const struct moment *now, struct thread_counts *count)
{
	struct task_struct___time *of = (void *)of_cpu->task;
	struct thread_slot *of_prev = prev->pid ? slot_of(find_context(prev)) : NULL, *slot;
	u64 end_ns = now->ns - (of_prev ? run_ns_of(of_prev, prev) : 0), ran_ns;
	u32 at = of_cpu->slot;

	count->end_missed++;
	slot = bpf_map_lookup_elem(&slots, &at);
	/* Else it has been woken since, or is gone; or it is a kworker, whose work is read as it leaves. */
	if (slot && slot->key.state == THREAD_STATE_RUNNING && !slot->wait_end_ns &&
	    slot->since_ns <= end_ns && slot->tid == BPF_CORE_READ(of, pid)) {
		ran_ns = run_ns_of(slot, (void *)of);
		slot->ran_total_ns += ran_ns;
		if (slot->since_ns + ran_ns < end_ns)
			end_ns = slot->since_ns + ran_ns;
		end_state_at(slot, end_ns, now, count);
		slot->key.state = THREAD_STATE_SLEEPING;
		slot->key.stack_id = -1;
	}
	end_cpu_run(of_cpu, end_ns);
	if (!prev->pid)
		of_cpu->role = THREAD_ROLE_IDLE;
	else if (!of_prev)
		of_cpu->role = role_outside(prev); /* else see begin_unseen_run() */
	return 0;
}

/* The cell of the wait before the present run; NULL: its time has left the cells. */
static __always_inline struct thread_cell *cell_of_wait(struct thread_slot *slot)
{
	struct thread_cell *cell = &slot->cells[wait_cell_index(slot->waited_by)];

	return slot->cells_bin == slot->since_bin && cell->key.state == THREAD_STATE_RUNNABLE &&
			       cell->key.by == slot->waited_by
		       ? cell
		       : NULL;
}

/* Takes the begin of a wait from the sleep before it; returns how much. */
static __always_inline u64 wait_from(struct thread_slot *slot, struct thread_cell *wait,
				     u64 more_ns)
{
	struct thread_cell *sleep = &slot->cells[sleep_cell_index(slot->slept_stack_id)];

	if (sleep->key.stack_id != slot->slept_stack_id || more_ns > slot->slept_ns ||
	    more_ns > LATE_MOST_NS || sleep->sum.ns < more_ns)
		return 0;
	sleep->sum.ns -= more_ns;
	wait->sum.ns += more_ns;
	return more_ns;
}

/*
 * Moves the borders of the run that ends, and of the wait before it, to where the scheduler has them: these are its counts in
 * schedstat, utime and stime, and cgroups. Its clock stands from the begin of a switch on, and from the wake-up of
 * the next thread on if that one is to run at once (rq_clock_skip_update() in kernel/sched/core.c): 1 to 15 us before the switch
 * is seen. A thread is queued before its wake-up is seen. Before a CPU idles, the scheduler looks for work on other CPUs
 * (sched_balance_newidle()), which can take longer than a short run; that is no part of the run.
 */
static __always_inline void run_as_scheduler(struct thread_slot *slot, struct task_struct *task,
					     struct moment *end)
{
	struct task_struct___time *of = (void *)task;
	s64 more_ns = of->se.sum_exec_runtime - slot->ran_total_ns, delay_ns = 0;
	struct thread_cell *wait = slot->waited_ns ? cell_of_wait(slot) : NULL;

	more_ns -= end->ns - slot->since_ns;
	if (more_ns < 0) {
		u64 end_ns = end->ns + more_ns;

		if (-more_ns <= LATE_MOST_NS && bin_of(&cuts, bin_ns, end_ns) == end->bin)
			end->ns = end_ns;
		more_ns = 0;
	}
	if (wait && bpf_core_field_exists(of->sched_info.run_delay)) {
		delay_ns = of->sched_info.run_delay - slot->delayed_total_ns;
		delay_ns += more_ns - slot->waited_ns;
		if (delay_ns > 0 && slot->slept_ns)
			slot->waited_last_ns += wait_from(slot, wait, delay_ns);
	}
	if (more_ns > slot->waited_last_ns)
		more_ns = slot->waited_last_ns;
	if (!wait || wait->sum.ns < more_ns)
		return;
	wait->sum.ns -= more_ns;
	slot->since_ns -= more_ns;
}

static __always_inline void switch_out(void *ctx, struct task_struct *prev, bool preempt, u32 state,
				       u32 cpu, const struct moment *seen,
				       struct thread_counts *count)
{
	struct moment end = *seen, *now = &end;
	struct task_struct___time *of = (void *)prev;
	struct cpu_time *of_cpu = &cpu_times[cpu & (BIN_CPUS - 1)];
	struct task_context *context = find_context(prev);
	struct thread_slot *slot = slot_of(context);
	u32 flags = of->flags;

	if (!slot) {
		add_unnumbered(of_cpu, cpu, now, count);
		if (context && !(state & TASK_DEAD))
			begin_late(prev, context, THREAD_STATE_RUNNING);
		slot = slot_of(context);
		if (!slot)
			return;
	}
	if (slot->is_guessed) {
		see_first(slot, prev, context);
		slot->key.state = THREAD_STATE_RUNNING;
		of_cpu->role = slot->role;
	} else if (slot->key.state != THREAD_STATE_RUNNING) {
		begin_unseen_run(slot, prev, now, cpu, count);
		if (slot->wait_end_ns)
			add_wait_of_run(slot, prev, count);
	} else {
		if (slot->wait_end_ns)
			add_wait_of_run(slot, prev, count);
		run_as_scheduler(slot, prev, &end);
	}
	if (flags & PF_WQ_WORKER)
		slot->key.work = work_of(prev, slot, true);
	if (slot->since_bin != now->bin && !(flags & PF_KTHREAD))
		note_role(slot, context, role_of(prev));
	if (slot->cgroup_bin != now->bin && !(flags & PF_KTHREAD)) {
		slot->cgroup = bpf_get_current_cgroup_id();
		slot->cgroup_bin = now->bin;
	}
	end_state(slot, now, count);
	slot->waited_ns = slot->slept_ns = 0;
	slot->ran_total_ns = of->se.sum_exec_runtime;
	if (bpf_core_field_exists(of->sched_info.run_delay))
		slot->delayed_total_ns = of->sched_info.run_delay;
	if (state & TASK_DEAD) {
		u32 at = context->thread_slot;

		context->thread_slot = 0;
		send_cells(slot, count);
		end_thread(slot, prev, at, now->ns);
		return;
	}
	begin_state(slot, THREAD_STATE_RUNNABLE, now);
	if (preempt || !state || !of->__state) {
		note_runners(slot, cpu, now->ns);
		if (flags & PF_WQ_WORKER)
			slot->key.work = work_of(prev, slot, false);
	} else {
		fall_asleep(ctx, prev, flags, state, slot, context, count);
	}
}

/* Returns the role of the task that begins to run. */
static __always_inline enum thread_role
switch_in(struct task_struct *next, u32 cpu, const struct moment *now, struct thread_counts *count)
{
	struct task_context *context = find_context(next);
	struct thread_slot *slot = slot_of(context);
	bool was_guessed;

	if (!slot)
		return role_outside(next);
	was_guessed = slot->is_guessed;
	if (was_guessed)
		see_first(slot, next, context);
	if (slot->key.state == THREAD_STATE_RUNNABLE) {
		end_wait(slot, now, cpu);
		if (slot->key.work || !(((struct task_struct___time *)next)->flags & PF_WQ_WORKER))
			add_wait(slot, count);
	} else {
		if (slot->wait_end_ns)
			add_wait_of_run(slot, next, count);
		if (slot->key.state == THREAD_STATE_RUNNING && was_guessed)
			slot->key.state = THREAD_STATE_RUNNABLE; /* guessed wrong */
		else if (slot->key.state == THREAD_STATE_RUNNING)
			begin_unseen_wait(slot, next, now, count);
		else if (!was_guessed)
			count->wake_missed++;
		end_state(slot, now, count);
	}
	slot->switches++;
	cpu_times[cpu & (BIN_CPUS - 1)].task = (u64)next;
	cpu_times[cpu & (BIN_CPUS - 1)].slot = context->thread_slot - 1;
	slot->ran_total_ns = ((struct task_struct___time *)next)->se.sum_exec_runtime;
	begin_state(slot, THREAD_STATE_RUNNING, now);
	return slot->role;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct thread_counts *count = counts_here();
	u32 cpu = bpf_get_smp_processor_id(), state;
	struct cpu_time *of_cpu = &cpu_times[cpu & (BIN_CPUS - 1)];
	struct bin_epoch *epoch;
	struct moment now;

	if (!count || is_over)
		return 0;
	state = have_prev_state ? *(volatile u64 *)&ctx[3] : prev->__state;
	epoch = enter();
	now = moment_now();
	count->switches++;
	if (of_cpu->task && of_cpu->task != (u64)prev)
		end_unseen_end(of_cpu, prev, &now, count);
	of_cpu->task = 0;
	if (prev->pid)
		switch_out(ctx, prev, preempt, state, cpu, &now, count);
	end_cpu_run(of_cpu, now.ns);
	of_cpu->role = next->pid ? switch_in(next, cpu, &now, count) : THREAD_ROLE_IDLE;
	leave(epoch);
	return 0;
}

static __always_inline u32 cpu_of(struct task_struct *task)
{
	struct task_struct___time *of = (void *)task;

	/* Linux kernel commit bcf9033e5449 ("sched: move CPU field back into thread_info if THREAD_INFO_IN_TASK=y") (in v5.16) */
	if (bpf_core_field_exists(of->thread_info.cpu))
		return of->thread_info.cpu;
	return of->cpu;
}

#define SCHED_FIFO     1
#define SCHED_RR       2
#define SCHED_DEADLINE 6

/*
 * A task of the fair class that falls asleep may stay in its queue for a while. It leaves the queue as another task looks for the next
 * one to run, and __block_task() notes the begin of its delay in I/O in that task: delayacct_blkio_start() takes
 * `current`. Linux kernel commit 152e11f6df29 ("sched/fair: Implement delayed dequeue") (in v6.12)
 */
static __always_inline bool is_blkio_unsure(struct task_struct *task)
{
	u32 policy = ((struct task_struct___time *)task)->policy;

	return blkio_by_current && policy != SCHED_FIFO && policy != SCHED_RR &&
	       policy != SCHED_DEADLINE;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(sched_wakeup, struct task_struct *task)
{
	struct thread_counts *count = counts_here();
	struct task_context *context = find_context(task);
	struct thread_slot *slot = slot_of(context);
	struct bin_epoch *epoch;
	struct moment now;
	u32 work;

	if (!count || !slot || is_over || slot->key.state == THREAD_STATE_RUNNABLE)
		return 0;
	/* On a CPU: it is woken before it has fallen asleep. */
	if (slot->key.state == THREAD_STATE_RUNNING && BPF_CORE_READ_BITFIELD(task, on_cpu))
		return 0;
	epoch = enter();
	now = moment_now();
	count->wakes++;
	if (slot->is_guessed) {
		see_first(slot, task, context);
		if (slot->key.state == THREAD_STATE_RUNNING)
			slot->key.state = THREAD_STATE_SLEEPING; /* before it had a context */
	} else if (slot->key.state == THREAD_STATE_RUNNING) {
		begin_unseen_sleep(slot, task, &now, count);
	} else if (slot->key.state == THREAD_STATE_IO_WAIT) {
		slot->after.blkio_delay_ns = blkio_delay_of((void *)task);
		slot->is_blkio_unsure |= is_blkio_unsure(task);
	}
	slot->slept_ns = slot->since_bin == now.bin ? now.ns - slot->since_ns : 0;
	slot->slept_stack_id = slot->key.stack_id;
	end_state(slot, &now, count);
	work = slot->key.work;
	begin_state(slot, THREAD_STATE_RUNNABLE, &now);
	slot->key.work = work;
	note_runners(slot, cpu_of(task), now.ns);
	leave(epoch);
	return 0;
}

/* A thread that waits for a CPU is moved to another one. Under the lock of the old CPU's queue, but for a task that is woken. */
SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int cpu)
{
	struct thread_slot *slot = slot_of(find_context(task));

	if (slot && slot->key.state == THREAD_STATE_RUNNABLE && !is_over)
		move_runners(slot, cpu, bpf_ktime_get_ns());
	return 0;
}

/* Makes the contexts of new threads: here no lock of the scheduler is held, which memory could not be had under. */
SEC("tp_btf/task_newtask")
int BPF_PROG(task_newtask, struct task_struct *task)
{
	struct thread_counts *count = counts_here();
	struct task_context *context = make_context(task);
	struct thread_slot *slot;

	if (!count)
		return 0;
	if (!context) {
		count->no_storage++;
		return 0;
	}
	if (!take_slot(task, context)) {
		count->no_slot++;
		return 0;
	}
	slot = slot_of(context);
	if (!slot)
		return 0;
	slot->before.blkio_delay_ns = slot->after.blkio_delay_ns = blkio_delay_of((void *)task);
	note_role(slot, context, role_of(task));
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	struct thread_slot *slot = slot_of(find_context(task));
	struct moment now = moment_now();

	if (!slot || is_over)
		return 0;
	slot->start_ns = now.ns;
	begin_state(slot, THREAD_STATE_RUNNABLE, &now);
	note_runners(slot, cpu_of(task), now.ns);
	return 0;
}

/* The workload's first process enters its cgroup between fork and exec. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task)
{
	struct task_context *context = find_context(task);
	struct thread_slot *slot = slot_of(context);

	if (!slot)
		return 0;
	note_role(slot, context, role_of(task));
	slot->cgroup = bpf_get_current_cgroup_id();
	slot->tid = task->pid; /* the process's first one, whichever thread it was that called */
	return 0;
}
