// SPDX-License-Identifier: BSD-2-Clause
/* The locks collector: empties the sums of locks.bpf.c, bin by bin, into lock_wait.rec and names the locks. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/records.h"
#include "lock_ids.h"
#include "lock_triggers.h"
#include "locks/names/lock_names.h"
#include "recorder/bpf_attach.h"
#include "recorder/bpf_maps.h"
#include "recorder/clock.h"
#include "recorder/followed.h"
#include "recorder/ksyms.h"
#include "recorder/options.h"
#include "recorder/rec_file.h"
#include "recorder/registry.h"
#include "recorder/second.h"
#include "recorder/stacks.h"
#include "recorder/time_bins.h"
#include "sampling.h"

#include "locks.skel.h" /* uses the types of records.h */

#define BATCH		       512
#define SUMS_ENTRIES	       8192 /* (lock, call path) pairs in one bin */
#define SUMS_ENTRIES_MANY_CPUS 4096 /* each costs 40 bytes a CPU and bin */

static struct collector_state state = { .begins = "contention_begin" };
static struct locks_bpf *skel;
static const struct options *output; /* where lock_sample.rec goes */
static struct rec_file *file;
static bool names_open;
static bool
	stacks_by_switch; /* holders' stacks are those that tasks leave when they are switched out */
static int cpus;
static struct bins bins;
static int bin_fds[LOCK_BIN_SLOTS]; /* maps */
static struct lock_hot_sums *hot;   /* of each slot and CPU, shared with the programs */
static struct lock_wait_key keys[BATCH];
static struct lock_wait_sum *sums; /* BATCH x cpus */
static struct lock_wait_record records[BATCH];

static void drain_bin(uint64_t bin);

static uint64_t waits_of(const void *record)
{
	return ((const struct lock_wait_record *)record)->count;
}

static size_t hot_bytes(void)
{
	return map_bytes(sizeof(*hot), (size_t)LOCK_BIN_SLOTS * cpus);
}

static int load(const struct options *options)
{
	struct slot_shape shape = { BPF_MAP_TYPE_PERCPU_HASH, sizeof(struct lock_wait_key),
				    sizeof(struct lock_wait_sum), 0 };

	cpus = bpf_possible_cpus(&state);
	if (cpus < 0 || bpf_check_btf(&state))
		return -1;
	if (!kernel_has_function("__bpf_trace_contention_begin") &&
	    !kernel_has_function("__traceiter_contention_begin"))
		return collector_off(&state, "use Linux 5.19 or newer",
				     "the kernel has no tracepoint lock:contention_begin");
	skel = locks_bpf__open();
	if (!skel)
		return bpf_open_failed(&state);
	shape.entries = map_entries("SEEKMETER_LOCK_ENTRIES",
				    cpus > 64 ? SUMS_ENTRIES_MANY_CPUS : SUMS_ENTRIES);
	skel->rodata->bin_ns = options->bin_ns;
	skel->rodata->have_cgroup = bpf_has_workload(options);
	skel->rodata->by_process = followed_share(options, skel->maps.followed_processes);
	skel->rodata->cpus = cpus;
	skel->rodata->object_lookups = lock_names_lookups();
	skel->rodata->have_task_from_pid = kernel_has_function("bpf_task_from_pid");
	stacks_by_switch = !skel->rodata->have_task_from_pid && !emulated_cpus();
	if (bpf_program__set_autoload(skel->progs.sched_switch, stacks_by_switch))
		return collector_off(&state, "report this", "a program can't be left out");
	if (lock_names_share(skel->obj))
		return collector_off(&state, "report this",
				     "the map of objects can't be shared: %s", strerror(errno));
	if (bpf_map__set_max_entries(skel->maps.hot, LOCK_BIN_SLOTS * cpus))
		return bpf_size_failed(&state);
	lock_samples_prepare(skel, options, &state);
	if (locks_bpf__load(skel))
		return bpf_load_failed(&state);
	if (map_create_slots(skel->maps.bins, &shape, bin_fds))
		return collector_off(&state, "free some memory",
				     "the maps of time bins can't be made: %s", strerror(errno));
	hot = map_memory(skel->maps.hot, hot_bytes(), PROT_READ | PROT_WRITE);
	if (!hot)
		return collector_off(&state, "free some memory", "the sums can't be mapped: %s",
				     strerror(errno));
	if (bpf_note_recorder(&state, skel->progs.note_recorder))
		return -1;
	return bpf_set_workload(&state, options, skel->maps.workload_cgroup);
}

static void close_all(void)
{
	bins_end(&bins);
	map_close_slots(bin_fds, LOCK_BIN_SLOTS);
	lock_samples_close();
	rec_file_close(file, &state);
	file = NULL;
	if (names_open)
		lock_names_close();
	names_open = false;
	free(sums);
	sums = NULL;
	unmap_memory(hot, hot_bytes());
	hot = NULL;
	state.object = NULL;
	locks_bpf__destroy(skel);
	skel = NULL;
}

/* contention_begin first: an end without a begin is then a wait open at the start, never half a wait. */
static int attach_programs(void)
{
	skel->links.contention_begin = bpf_program__attach(skel->progs.contention_begin);
	if (!skel->links.contention_begin)
		return -1;
	skel->links.contention_end = bpf_program__attach(skel->progs.contention_end);
	if (!skel->links.contention_end)
		return -1;
	if (!stacks_by_switch)
		return 0;
	skel->links.sched_switch = bpf_program__attach(skel->progs.sched_switch);
	return skel->links.sched_switch ? 0 : -1;
}

static int open_all(const struct options *options)
{
	output = options;
	if (load(options))
		return -1;
	sums = calloc((size_t)BATCH * cpus, sizeof(*sums));
	if (!sums)
		return collector_off(&state, "free some memory", "no memory for %d CPUs", cpus);
	file = rec_file_open(options, "lock_wait", bpf_object__btf(skel->obj), "lock_wait_record",
			     NULL);
	if (file)
		rec_file_events(file, waits_of);
	names_open = file && !lock_names_open(options, skel->obj);
	if (!names_open)
		return collector_off(&state, "free some space",
				     "lock_wait.rec or lock.jsonl can't be written: %s",
				     strerror(errno));
	/* Reads kallsyms, a tenth of a second's work, now rather than while events come in. */
	(void)ksyms_load();
	bins = (struct bins){ .epochs = skel->bss->epochs,
			      .cuts = &skel->bss->cuts,
			      .drained_to = &skel->bss->drained_to,
			      .slots = LOCK_BIN_SLOTS,
			      .cpus = cpus,
			      .drain_bin = drain_bin };
	bins_begin(&bins);
	return 0;
}

static int attach(void)
{
	if (attach_programs())
		return bpf_attach_failed(&state);
	if (lock_samples_open(skel, output))
		return collector_off(&state, "free some space",
				     "lock_sample.rec can't be written: %s", strerror(errno));
	state.object = skel->obj;
	second_has_waits();
	return 0;
}

/* Makes a row from the sums of all CPUs. */
static struct lock_wait_record merge(uint64_t bin, const struct lock_wait_key *key,
				     const struct lock_wait_sum *parts)
{
	struct lock_wait_record row;

	memset(&row, 0, sizeof(row)); /* with the padding: it goes to the file */
	row.bin_ns = bins_start_ns(bin);
	row.length_ns = bins_length_ns(bin);
	row.lock_id = lock_id(key->lock);
	row.stack_id = key->stack_id;
	row.holder_stack_id = key->holder_stack_id;
	row.root_stack_id = key->root_stack_id;
	row.holder_lock = lock_id(key->holder_lock);
	row.root_lock = lock_id(key->root_lock);
	row.holder_state = key->holder_state;
	row.root_state = key->root_state;
	row.chain = key->chain;
	memcpy(row.holder_comm, key->holder_comm, sizeof(row.holder_comm));
	row.kind = key->kind;
	row.mode = key->mode;
	row.in_workload = key->waiter.in_workload;
	row.waiter = key->waiter.who;
	memcpy(row.waiter_name, key->waiter.name, sizeof(row.waiter_name));
	for (int i = 0; i < cpus; i++) {
		row.spin_ns += parts[i].spin_ns;
		row.sleep_ns += parts[i].sleep_ns;
		row.count += parts[i].count;
		row.failed += parts[i].failed;
		if (parts[i].max_ns > row.max_ns)
			row.max_ns = parts[i].max_ns;
	}
	return row;
}

static uint64_t waits_in(size_t count)
{
	uint64_t waits = 0;

	for (size_t i = 0; i < count; i++)
		waits += waits_of(&records[i]);
	return waits;
}

/* Writes the stack; *id becomes its number in stack.jsonl. */
static bool note_stack(int32_t *id)
{
	bool of_holder = *id >= LOCK_HOLDER_STACK_IDS;

	return stacks_note(bpf_map__fd(of_holder ? skel->maps.holder_stacks : skel->maps.stacks),
			   *id, id);
}

/* Writes the row's stacks and its lock. False: the row can't be kept, as its lock has no number. */
static bool note_row(struct lock_wait_record *row, const struct lock_wait_key *key,
		     const uint64_t *frames)
{
	lock_triggers_row(row);
	if (!row->lock_id) {
		reason_add(state.lost, "too many locks", row->count);
		return false;
	}
	if ((key->holder_lock && !row->holder_lock) || (key->root_lock && !row->root_lock))
		reason_add(state.notes, "holder's lock not told: too many locks", 1);
	if (!(note_stack(&row->stack_id) & note_stack(&row->holder_stack_id) &
	      note_stack(&row->root_stack_id)))
		reason_add(state.notes, "stack not written", 1);
	if (!lock_names_note(key->lock, key->kind, frames))
		reason_add(state.notes, "lock not written", 1);
	second_add_wait(row);
	return true;
}

/* Makes one row per lock and waiter from entry `index` of all CPUs. */
static size_t take_hot(struct lock_hot_sums *cpu_sums, int index, uint64_t bin)
{
	size_t count = 0;

	for (int i = 0; i < cpus; i++) {
		struct lock_wait_key key = { .stack_id = LOCK_STACK_NOT_SAMPLED,
					     .holder_stack_id = LOCK_STACK_NONE,
					     .root_stack_id = LOCK_STACK_NONE };
		struct lock_hot *first = &cpu_sums[i].locks[index];

		if (!first->lock)
			continue;
		key.lock = first->lock;
		key.kind = first->kind;
		key.mode = first->mode;
		key.waiter = first->waiter;
		if (key.kind == LOCK_KIND_MUTEX)
			key.holder_state = key.root_state = LOCK_HOLDER_NOT_SAMPLED;
		memset(sums, 0, sizeof(*sums) * cpus);
		for (int j = i; j < cpus; j++) {
			struct lock_hot *part = &cpu_sums[j].locks[index];

			if (part->lock != key.lock || part->kind != key.kind ||
			    part->mode != key.mode ||
			    memcmp(&part->waiter, &key.waiter, sizeof(key.waiter)))
				continue;
			sums[j] = part->sum;
			memset(part, 0, sizeof(*part));
		}
		records[count] = merge(bin, &key, sums);
		count += note_row(&records[count], &key, NULL);
		if (count == BATCH) {
			state.recorded += waits_in(rec_file_write(file, &state, records, count));
			count = 0;
		}
	}
	return count;
}

static void drain_hot(uint64_t bin)
{
	struct lock_hot_sums *cpu_sums = &hot[(bin % LOCK_BIN_SLOTS) * cpus];

	for (int index = 0; index < LOCK_HOT; index++) {
		size_t count = take_hot(cpu_sums, index, bin);

		state.recorded += waits_in(rec_file_write(file, &state, records, count));
	}
}

static void take_sums(uint64_t bin, uint32_t count)
{
	uint64_t frames[LOCK_STACK_FRAMES + 1] = { 0 };
	int stacks = bpf_map__fd(skel->maps.stacks);
	size_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		bool known = keys[i].stack_id >= 0 &&
			     !bpf_map_lookup_elem(stacks, &keys[i].stack_id, frames);

		records[kept] = merge(bin, &keys[i], &sums[(size_t)i * cpus]);
		kept += note_row(&records[kept], &keys[i], known ? frames : NULL);
	}
	state.recorded += waits_in(rec_file_write(file, &state, records, kept));
}

static void drain_bin(uint64_t bin)
{
	if (!bins_take(bin_fds[bin % LOCK_BIN_SLOTS], bin, keys, sums, BATCH, take_sums))
		reason_add(state.notes, "a bin's sums could not be read", 1);
	drain_hot(bin);
}

static void read_counts(void)
{
	struct lock_counts sum;

	if (!map_sum_cpus(skel->maps.counts, cpus, &sum, sizeof(sum)))
		return;
	state.seen = sum.waits + sum.too_deep + sum.no_storage;
	reason_set(state.lost, "map full", sum.map_full);
	reason_set(state.lost, "map busy", sum.map_busy);
	reason_set(state.lost, "recorder late", sum.late);
	reason_set(state.lost, "nested too deep", sum.too_deep);
	reason_set(state.lost, "no task storage", sum.no_storage);
	reason_set(state.lost, "end not seen", sum.end_missed_begin + sum.end_missed_end);
	reason_set(state.notes, "contention_begin events", sum.begins);
	reason_set(state.notes, "contention_end events", sum.ends);
	reason_set(state.notes, "mutex waits changing between spin and sleep", sum.rebegins);
	reason_set(state.notes, "nested in another wait", sum.nested);
	reason_set(state.notes, "stack not kept", sum.no_stack);
	reason_set(state.notes, "call path not sampled (waits counted all the same)",
		   sum.not_sampled);
	reason_set(state.notes, "looks at a holder", sum.holders);
	reason_set(state.notes,
		   emulated_cpus() ? "holder's stack not taken, as CPUs are emulated"
				   : "holder's stack not kept",
		   sum.no_holder_stack);
	if (stacks_by_switch)
		reason_set(state.notes, "tasks switched out whose stack was not kept",
			   sum.no_switch_stack);
	/* Above 0: this kernel reports all of them. 0 is written too, as older recorders wrote none. */
	reason_set(state.notes, "percpu rwsem writers reported before they try",
		   sum.percpu_untried);
	reason_set(state.notes, "open at the start (or begin not seen)", sum.not_begun);
	reason_set(state.notes, "open at the end",
		   sum.waits - sum.counted - sum.map_full - sum.map_busy - sum.late -
			   sum.end_missed_begin - sum.end_missed_end);
}

static void drain(bool last)
{
	bins_drain(&bins, last);
	lock_samples_drain(last);
	read_counts();
}

static void detach(void)
{
	lock_samples_detach();
	locks_bpf__detach(skel);
	__atomic_store_n(&skel->bss->is_over, true, __ATOMIC_RELEASE);
}

static const struct collector_ops locks_collector = {
	.name = "locks",
	.order = 30,
	.on_by_default = true,
	.open = open_all,
	.attach = attach,
	.drain = drain,
	.detach = detach,
	.close = close_all,
	.state = &state,
};

REGISTER_COLLECTOR(locks_collector)
