// SPDX-License-Identifier: BSD-2-Clause
/*
 * The threads collector: empties the sums of threads.bpf.c, bin by bin, into thread_time.rec, and writes the threads to
 * thread.jsonl.
 *
 * At the start each living thread gets a slot, with the state that /proc shows; at the end the open intervals of all are
 * closed. So threads that sleep all along have their time too.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/records.h"
#include "locks/names/lock_names.h"
#include "locks/spin_ranges.h"
#include "recorder/bpf_attach.h"
#include "recorder/bpf_maps.h"
#include "recorder/clock.h"
#include "recorder/cpu_timers.h"
#include "recorder/features.h"
#include "recorder/followed.h"
#include "recorder/ksyms.h"
#include "recorder/options.h"
#include "recorder/registry.h"
#include "recorder/stacks.h"
#include "recorder/task_context.h"
#include "recorder/time_bins.h"
#include "thread_rows.h"
#include "thread_seeds.h"
#include "stack_numbers.h"
#include "thread_proc.h"
#include "thread_table.h"

#include "threads.skel.h" /* uses the types of records.h */

#define BATCH	     512
#define SUMS_ENTRIES 16384 /* keys in one bin */
#define LATE_EVENTS  65536 /* events that wait until their bins are over */
#define COPY_TRIES   4

static struct collector_state state = { .begins = "" };
static struct threads_bpf *skel;
static int cpus;
static struct bins bins;
static int bin_fds[THREAD_BIN_SLOTS]; /* maps */
static struct thread_slot *slots;     /* shared with the programs */
static const struct thread_work *works;
static struct ring_buffer *ring;
static struct cpu_timers timers;
static bool samples;
static uint64_t end_ns; /* of the recording */
static bool rows_open, table_open;

static struct thread_time_key keys[BATCH];
static struct thread_time_sum sums[BATCH];
static struct thread_event *pending;
static size_t pending_count;

static void drain_bin(uint64_t bin);
static int take_event(void *unused, void *data, size_t bytes);

static size_t slots_bytes(void)
{
	return map_bytes(sizeof(*slots), THREAD_SLOTS);
}

static size_t works_bytes(void)
{
	return map_bytes(sizeof(*works), THREAD_WORKS);
}

static size_t numbers_bytes(void)
{
	return map_bytes(sizeof(uint32_t), 1);
}

/* The text of a function of the kernel, as far as /proc/kallsyms shows it. */
static const char *wanted;
static uint64_t found_begin, found_end;

static void find_wanted(const char *name, uint64_t begin, uint64_t end)
{
	if (strcmp(name, wanted))
		return;
	found_begin = begin;
	found_end = end;
}

static void find_text(const char *name, volatile uint64_t *begin, volatile uint64_t *end)
{
	wanted = name;
	found_begin = found_end = 0;
	ksyms_each_function(find_wanted);
	*begin = found_begin;
	*end = found_end;
}

static int configure(const struct options *options)
{
	struct btf *btf = bpf_load_kernel_btf(&state);
	int position;

	if (!btf)
		return -1;
	position = features_argument(btf, "sched_switch", "task_struct");
	skel->rodata->have_prev_state = features_arguments(btf, "sched_switch") >= 4;
	skel->rodata->blkio_by_current =
		features_has_member(btf, "sched_entity", "sched_delayed") &&
		features_parameters(btf, "__delayacct_blkio_start") < 1;
	btf__free(btf);
	if (position != 1)
		return collector_off(&state, "report this",
				     "sched_switch has other arguments than expected");
	skel->rodata->bin_ns = options->bin_ns;
	skel->rodata->have_cgroup = bpf_has_workload(options);
	skel->rodata->by_process = followed_share(options, skel->maps.followed_processes);
	skel->rodata->have_rdonly_cast = kernel_has_function("bpf_rdonly_cast");
	skel->rodata->have_task_contexts = task_context_share(skel->maps.task_contexts);
	if (!skel->rodata->have_task_contexts ||
	    !task_context_share_numbers(skel->maps.thread_numbers))
		return collector_off(&state, "use Linux 5.12 or newer",
				     "the kernel keeps no data with a task for tracing programs");
	find_text("__schedule", &skel->rodata->inner_schedule_begin,
		  &skel->rodata->inner_schedule_end);
	find_text("schedule", &skel->rodata->schedule_begin, &skel->rodata->schedule_end);
	skel->rodata->spin_range_count =
		spin_ranges_find((void *)skel->rodata->spin_ranges, &state);
	return 0;
}

static int map_all(void)
{
	struct slot_shape shape = { BPF_MAP_TYPE_HASH, sizeof(struct thread_time_key),
				    sizeof(struct thread_time_sum),
				    map_entries("SEEKMETER_THREAD_ENTRIES", SUMS_ENTRIES) };

	if (map_create_slots(skel->maps.bins, &shape, bin_fds))
		return -1;
	slots = map_memory(skel->maps.slots, slots_bytes(), PROT_READ | PROT_WRITE);
	works = map_memory(skel->maps.works, works_bytes(), PROT_READ);
	ring = ring_buffer__new(bpf_map__fd(skel->maps.ring), take_event, NULL, NULL);
	pending = malloc(LATE_EVENTS * sizeof(*pending));
	return slots && works && ring && pending ? 0 : -1;
}

static int load(const struct options *options)
{
	cpus = bpf_possible_cpus(&state);
	if (cpus < 0 || bpf_check_btf(&state))
		return -1;
	skel = threads_bpf__open();
	if (!skel)
		return bpf_open_failed(&state);
	if (configure(options))
		return -1;
	if (threads_bpf__load(skel))
		return bpf_load_failed(&state);
	if (map_all())
		return collector_off(&state, "free some memory",
				     "the sums and slots can't be made: %s", strerror(errno));
	if (bpf_note_recorder(&state, skel->progs.note_recorder))
		return -1;
	return bpf_set_workload(&state, options, skel->maps.workload_cgroup);
}

static void close_all(void)
{
	bins_end(&bins);
	cpu_timers_free(&timers);
	map_close_slots(bin_fds, THREAD_BIN_SLOTS);
	if (rows_open)
		thread_rows_close();
	if (table_open)
		thread_table_close();
	rows_open = table_open = false;
	ring_buffer__free(ring);
	ring = NULL;
	unmap_memory(slots, slots_bytes());
	slots = NULL;
	unmap_memory((void *)works, works_bytes());
	works = NULL;
	free(pending);
	pending = NULL;
	pending_count = 0;
	state.object = NULL;
	threads_bpf__destroy(skel);
	skel = NULL;
}

static int open_all(const struct options *options)
{
	struct thread_rows_names names;

	if (load(options))
		return -1;
	names = (struct thread_rows_names){ bpf_map__fd(skel->maps.stacks), works };
	rows_open = !thread_rows_open(options, bpf_object__btf(skel->obj), names, &state);
	table_open = rows_open && !thread_table_open(options);
	if (!table_open)
		return collector_off(&state, "free some space",
				     "thread_time.rec or thread.jsonl can't be written: %s",
				     strerror(errno));
	bins = (struct bins){ .epochs = skel->bss->epochs,
			      .cuts = &skel->bss->cuts,
			      .drained_to = &skel->bss->drained_to,
			      .slots = THREAD_BIN_SLOTS,
			      .cpus = cpus,
			      .drain_bin = drain_bin };
	bins_begin(&bins);
	return 0;
}

/* New threads first, so that each that is not listed in /proc is seen. */
static int attach_programs(void)
{
	struct {
		struct bpf_link **link;
		struct bpf_program *program;
	} all[] = {
		{ &skel->links.task_newtask, skel->progs.task_newtask },
		{ &skel->links.sched_process_exec, skel->progs.sched_process_exec },
		{ &skel->links.sched_wakeup_new, skel->progs.sched_wakeup_new },
		{ &skel->links.sched_wakeup, skel->progs.sched_wakeup },
		{ &skel->links.sched_migrate_task, skel->progs.sched_migrate_task },
		{ &skel->links.sched_switch, skel->progs.sched_switch },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		*all[i].link = bpf_program__attach(all[i].program);
		if (!*all[i].link)
			return -1;
	}
	return 0;
}

static int attach(void)
{
	struct thread_seeds seeds = { .slots = slots,
				      .contexts_fd = bpf_map__fd(skel->maps.task_contexts),
				      .newest_number = map_memory(skel->maps.thread_numbers,
								  numbers_bytes(),
								  PROT_READ | PROT_WRITE) };
	int err;

	if (!seeds.newest_number)
		return collector_off(&state, "free some memory",
				     "the numbers of threads can't be mapped: %s", strerror(errno));
	if (attach_programs()) {
		unmap_memory(seeds.newest_number, numbers_bytes());
		return bpf_attach_failed(&state);
	}
	thread_seeds_take(&seeds);
	unmap_memory(seeds.newest_number, numbers_bytes());
	if (seeds.without_slot)
		reason_add(state.notes, "threads alive at the start that are not told apart",
			   seeds.without_slot);
	err = cpu_timers_start(&timers, skel->progs.thread_sample, cpus, &state);
	samples = !err;
	if (err) {
		cpu_timers_free(&timers);
		reason_add(state.notes, "CPU sampling is off: the kernel refused a timer", 1);
	}
	state.object = skel->obj;
	return 0;
}

static void take_sums(uint64_t bin, uint32_t count)
{
	uint64_t start_ns = bins_start_ns(bin), length_ns = bins_length_ns(bin);

	for (uint32_t i = 0; i < count; i++)
		thread_rows_add(start_ns, length_ns, &keys[i], &sums[i]);
}

static void drain_bin(uint64_t bin)
{
	if (!bins_take(bin_fds[bin % THREAD_BIN_SLOTS], bin, keys, sums, BATCH, take_sums))
		reason_add(state.notes, "a bin's sums could not be read", 1);
}

static bool same_tids(void)
{
	return skel->bss->recorder_tgid == getpid();
}

static void write_thread(struct thread_slot *slot)
{
	if (slot->is_guessed && slot->role == THREAD_ROLE_UNKNOWN)
		slot->role = thread_seeds_role(slot, skel->rodata->have_cgroup);
	if (!thread_table_write(slot, same_tids()))
		reason_add(state.notes, "thread not written", 1);
}

/* Writes a thread that has ended; another may take its slot. */
static void end_slot(struct thread_slot *slot)
{
	write_thread(slot);
	memset((char *)slot + sizeof(slot->use), 0, sizeof(*slot) - sizeof(slot->use));
	__atomic_store_n(&slot->use, THREAD_SLOT_FREE, __ATOMIC_RELEASE);
}

static void end_if_over(struct thread_slot *slot)
{
	if (__atomic_load_n(&slot->use, __ATOMIC_ACQUIRE) == THREAD_SLOT_ENDED)
		end_slot(slot);
}

static int take_event(void *unused, void *data, size_t bytes)
{
	const struct thread_event *event = data;

	(void)unused;
	(void)bytes;
	if (event->kind == THREAD_EVENT_ENDED)
		end_if_over(&slots[event->slot - 1]);
	else if (pending_count < LATE_EVENTS)
		pending[pending_count++] = *event;
	else
		reason_add(state.lost, "recorder late",
			   event->kind == THREAD_EVENT_SUM ? event->sum.count
							   : event->whole_ns != 0);
	return 0;
}

static uint64_t last_bin(const struct thread_event *event)
{
	return event->kind == THREAD_EVENT_SUM ? event->bin : bins_number(event->end_ns);
}

static void add_rows(const struct thread_event *event)
{
	if (event->kind == THREAD_EVENT_SUM)
		thread_rows_add(bins_start_ns(event->bin), bins_length_ns(event->bin), &event->key,
				&event->sum);
	else
		thread_rows_split(event);
}

/* Adds the rows of events whose bins are all over. */
static void add_pending(bool last)
{
	size_t kept = 0;

	for (size_t i = 0; i < pending_count; i++) {
		if (last || last_bin(&pending[i]) < skel->bss->drained_to)
			add_rows(&pending[i]);
		else
			pending[kept++] = pending[i];
	}
	pending_count = kept;
}

/* The wait for a CPU of a kworker that still runs: its work is not known. */
static void add_kworkers_wait(const struct thread_slot *slot)
{
	struct thread_event event = { .begin_ns = slot->wait_begin_ns,
				      .end_ns = slot->wait_end_ns,
				      .whole_ns = slot->wait_end_ns - slot->wait_begin_ns,
				      .key = slot->key };

	event.key.state = THREAD_STATE_RUNNABLE;
	event.key.by = slot->waited_by;
	thread_rows_split(&event);
}

static uint64_t open_from_ns; /* of open intervals only the part from then on is added */

/* Adds the open interval of a living thread. */
static void add_open(const struct thread_slot *slot)
{
	struct thread_event event = { .begin_ns = slot->since_ns, .key = slot->key };
	uint64_t left_ns = 0;

	if (event.begin_ns < open_from_ns)
		event.begin_ns = open_from_ns;
	/* Its way off the CPU was not seen, and no switch on that CPU since. */
	if (slot->key.state == THREAD_STATE_RUNNING)
		left_ns = thread_proc_left_cpu(same_tids() ? slot->tid : slot->proc_tid,
					       same_tids() ? slot->tgid : slot->proc_tgid, slot,
					       end_ns);
	if (left_ns) {
		event.end_ns = left_ns;
		if (left_ns > event.begin_ns) {
			thread_rows_split(&event);
			event.begin_ns = left_ns;
		}
		event.key.state = THREAD_STATE_SLEEPING;
	}
	event.end_ns = end_ns;
	thread_rows_split(&event);
}

/* Adds a thread's open interval, if it has one, and its sums of bins before until_bin. */
static bool add_under_way(const struct thread_slot *slot, uint64_t until_bin)
{
	bool is_open = slot->use == THREAD_SLOT_TAKEN && slot->since_ns < end_ns;

	if (slot->wait_end_ns)
		add_kworkers_wait(slot);
	if (is_open)
		add_open(slot);
	for (int cell = 0; cell < THREAD_CELLS; cell++)
		if ((slot->cells[cell].sum.ns || slot->cells[cell].sum.count ||
		     slot->cells[cell].sum.samples) &&
		    slot->cells_bin < until_bin)
			thread_rows_add(bins_start_ns(slot->cells_bin),
					bins_length_ns(slot->cells_bin), &slot->cells[cell].key,
					&slot->cells[cell].sum);
	return is_open;
}

/* Adds the open intervals of all living threads, and writes the threads. */
static void end_recording(void)
{
	uint64_t open = 0;

	for (uint32_t i = 0; i < THREAD_SLOTS; i++) {
		struct thread_slot *slot = &slots[i];

		if (slot->use == THREAD_SLOT_FREE || !slot->start_ns)
			continue;
		open += add_under_way(slot, UINT64_MAX);
		write_thread(slot);
	}
	reason_set(state.notes, "intervals under way at the end", open);
}

/* Copies a slot that a program may be changing. False: it has ended, or changes all the time. */
static bool copy_slot(const struct thread_slot *slot, struct thread_slot *copy)
{
	static struct thread_slot again;

	for (int i = 0; i < COPY_TRIES; i++) {
		if (__atomic_load_n(&slot->use, __ATOMIC_ACQUIRE) != THREAD_SLOT_TAKEN ||
		    !slot->start_ns)
			return false;
		memcpy(copy, slot, sizeof(*copy));
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		memcpy(&again, slot, sizeof(again));
		if (!memcmp(copy, &again, sizeof(again)))
			return true;
	}
	return false;
}

/* Adds the part of an interval that is over then, whose bins are not all over. */
static void add_until(struct thread_event event, uint64_t until_ns)
{
	if (event.kind != THREAD_EVENT_INTERVAL || event.begin_ns >= until_ns)
		return;
	if (event.end_ns > until_ns) {
		event.end_ns = until_ns;
		event.whole_ns = 0;
	}
	thread_rows_split(&event);
}

/* Writes the living threads and their open intervals to tables of a kept window. */
static void keep(const struct options *kept, uint64_t from_ns, uint64_t until_ns)
{
	static struct thread_slot copy;
	uint64_t until_bin;

	(void)until_ns;
	if (thread_table_keep(kept)) {
		reason_add(state.notes, "threads of a kept window not written", 1);
		return;
	}
	if (thread_rows_keep(kept, bpf_object__btf(skel->obj))) {
		(void)thread_table_keep_end();
		reason_add(state.notes, "threads of a kept window not written", 1);
		return;
	}
	/* Intervals are split at bins that are over. */
	until_bin = bins_number(monotonic_ns());
	end_ns = bins_start_ns(until_bin);
	open_from_ns = bins_start_ns(bins_number(from_ns));
	ring_buffer__consume(ring);
	for (size_t i = 0; i < pending_count; i++)
		add_until(pending[i], end_ns);
	for (uint32_t i = 0; i < THREAD_SLOTS; i++) {
		if (!copy_slot(&slots[i], &copy))
			continue;
		(void)add_under_way(&copy, until_bin);
		write_thread(&copy);
	}
	open_from_ns = 0;
	thread_rows_keep_end();
	if (!thread_table_keep_end())
		reason_add(state.notes, "threads of a kept window not written", 1);
}

static void read_counts(void)
{
	struct thread_counts sum;

	if (!map_sum_cpus(skel->maps.counts, cpus, &sum, sizeof(sum)))
		return;
	state.seen = sum.intervals;
	reason_set(state.lost, "ring full", sum.ring_full);
	reason_set(state.notes, "switches", sum.switches);
	reason_set(state.notes, "wake-ups", sum.wakes);
	reason_set(state.notes, "intervals across bins", sum.passed);
	if (sum.late)
		reason_set(state.notes, "intervals passed on, as the recorder was late", sum.late);
	if (sum.map_full + sum.map_busy)
		reason_set(state.notes, "intervals passed on, as a map was full or busy",
			   sum.map_full + sum.map_busy);
	reason_set(state.notes, "wake-ups not seen", sum.wake_missed);
	reason_set(state.notes, "begins of runs not seen", sum.run_missed);
	reason_set(state.notes, "ends of runs not seen", sum.end_missed);
	reason_set(state.notes, "begins of sleeps not seen", sum.sleep_missed);
	if (sum.wait_missed)
		reason_set(state.notes, "begins of waits for a CPU not seen", sum.wait_missed);
	reason_set(state.notes, "switches of threads that are not told apart", sum.no_context);
	if (sum.no_slot)
		reason_set(state.notes, "new threads without a slot", sum.no_slot);
	if (sum.no_storage)
		reason_set(state.notes, "new threads without storage", sum.no_storage);
	if (sum.no_work)
		reason_set(state.notes,
			   "runs and sleeps of kworkers without their work: too many kinds",
			   sum.no_work);
	reason_set(state.notes, "stacks known", sum.stacks_known);
	reason_set(state.notes, "stacks walked", sum.stacks_walked);
	reason_set(state.notes, "stacks not kept", sum.stacks_lost);
	reason_set(state.notes, "CPU samples", sum.samples - sum.samples_idle);
	reason_set(state.notes, "CPU samples left out (idle CPU, interrupts off)",
		   cpu_timers_left_out(&timers, sum.samples));
	if (sum.samples_lost)
		reason_set(state.notes, "CPU samples of threads that are not told apart",
			   sum.samples_lost);
}

static void drain(bool last)
{
	ring_buffer__consume(ring);
	bins_drain(&bins, last);
	add_pending(last);
	if (last)
		end_recording();
	else if (samples)
		cpu_timers_follow(&timers);
	thread_rows_flush();
	thread_table_flush();
	read_counts();
}

static void detach(void)
{
	cpu_timers_stop(&timers);
	skel->bss->is_over = true;
	end_ns = monotonic_ns();
	threads_bpf__detach(skel);
}

bool thread_stack_note(int32_t stack_id, int32_t *number)
{
	*number = -1;
	return skel && stacks_note_of_thread(bpf_map__fd(skel->maps.stacks), stack_id, number);
}

static const struct collector_ops threads_collector = {
	.name = "threads",
	.order = 15, /* before sched, whose programs read what these have noted */
	.on_by_default = true,
	.open = open_all,
	.attach = attach,
	.drain = drain,
	.keep = keep,
	.detach = detach,
	.close = close_all,
	.state = &state,
};

REGISTER_COLLECTOR(threads_collector)
