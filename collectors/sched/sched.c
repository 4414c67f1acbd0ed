// SPDX-License-Identifier: BSD-2-Clause
/*
 * The sched collector: one row per switch and per wake, from the rings of sched.bpf.c into switch.rec and wake.rec, within a
 * budget (sched_windows.h).
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>

#include "common/records.h"
#include "recorder/bpf_attach.h"
#include "recorder/completion.h"
#include "recorder/cpu_context.h"
#include "recorder/features.h"
#include "recorder/followed.h"
#include "recorder/functions.h"
#include "recorder/options.h"
#include "recorder/rec_file.h"
#include "recorder/registry.h"
#include "recorder/rings.h"
#include "recorder/task_context.h"
#include "sched_windows.h"
#include "threads/stack_numbers.h"

#include "sched.skel.h" /* uses the types of records.h */

static struct collector_state state;
static struct sched_bpf *skel;
static struct rec_file *switch_file, *wake_file;
static struct rings switches, wakes;
static int cpus;
static bool contexts_known;

static bool take_switch(void *record)
{
	struct switch_record *one = record;

	if (!windows_keep(one->t_ns))
		return false;
	/* Without the collector threads nobody takes stacks: each is 0 then, and becomes -1. */
	if (one->stack_id >= 0)
		thread_stack_note(one->stack_id, &one->stack_id);
	return true;
}

static bool take_wake(void *record)
{
	struct wake_record *one = record;

	if (!windows_keep(one->t_ns))
		return false;
	if (one->cause == WAKE_CAUSE_WORK) {
		one->work_id = functions_note(one->sector);
		one->sector = 0;
	}
	return true;
}

/* Where the CPUs' variables are from which the programs conclude the cause of a wake. */
static int find_variables(void)
{
	struct cpu_places places = cpu_context_places();
	uint32_t hrtimers_at = CPU_NOWHERE, timers_at = CPU_NOWHERE, net_at = CPU_NOWHERE;
	uint32_t migration_at = CPU_NOWHERE;
	uint32_t bytes = 0, type = 0;
	struct btf *btf = bpf_load_kernel_btf(&state);
	const struct btf_type *bases;

	if (!btf)
		return -1;
	contexts_known = places.hardirq_bits;
	memcpy((void *)&skel->rodata->cpu_places, &places, sizeof(places));
	cpu_variable_at(btf, "hrtimer_bases", &hrtimers_at, NULL, NULL);
	cpu_variable_at(btf, "softnet_data", &net_at, NULL, NULL);
	cpu_variable_at(btf, "tmigr_cpu", &migration_at, NULL, NULL);
	if (cpu_variable_at(btf, "timer_bases", &timers_at, &bytes, &type)) {
		bases = btf__type_by_id(btf, type);
		if (btf_is_array(bases)) {
			skel->rodata->timer_base_count = btf_array(bases)->nelems;
			skel->rodata->timer_base_bytes = bytes / btf_array(bases)->nelems;
		}
	}
	skel->rodata->hrtimer_bases_at = hrtimers_at;
	skel->rodata->timer_bases_at = timers_at;
	skel->rodata->timer_migration_at = migration_at;
	skel->rodata->cpus = cpus;
	skel->rodata->softnet_data_at = net_at;
	skel->rodata->have_prev_state = features_arguments(btf, "sched_switch") >= 4;
	btf__free(btf);
	return 0;
}

static int configure(const struct options *options)
{
	skel->rodata->have_cgroup = bpf_has_workload(options);
	skel->rodata->by_process = followed_share(options, skel->maps.followed_processes);
	if (rings_size(&switches, skel->maps.switch_rings, cpus, sizeof(struct switch_record)) ||
	    rings_size(&wakes, skel->maps.wake_rings, cpus, sizeof(struct wake_record)) ||
	    completion_share(skel->maps.completions))
		return bpf_size_failed(&state);
	skel->rodata->ring_mask = switches.mask;
	skel->rodata->wake_ring_mask = wakes.mask;
	switches.take = take_switch;
	wakes.take = take_wake;
	return find_variables();
}

static int load(const struct options *options)
{
	cpus = bpf_possible_cpus(&state);
	if (cpus < 0 || bpf_check_btf(&state))
		return -1;
	skel = sched_bpf__open();
	if (!skel)
		return bpf_open_failed(&state);
	/* Threads have their numbers there. */
	skel->rodata->have_task_contexts = task_context_share(skel->maps.task_contexts) &&
					   task_context_share_numbers(skel->maps.thread_numbers);
	if (!skel->rodata->have_task_contexts)
		return collector_off(&state, "use Linux 5.12 or newer",
				     "the kernel keeps no data with a task for tracing programs");
	if (configure(options))
		return -1;
	if (sched_bpf__load(skel))
		return bpf_load_failed(&state);
	if (bpf_note_recorder(&state, skel->progs.note_recorder) ||
	    bpf_set_workload(&state, options, skel->maps.workload_cgroup))
		return -1;
	if (rings_map(&switches, skel->maps.switch_rings) ||
	    rings_map(&wakes, skel->maps.wake_rings))
		return collector_off(&state, "free some memory", "the rings can't be mapped: %s",
				     strerror(errno));
	return 0;
}

static void close_all(void)
{
	windows_close();
	rec_file_close(switch_file, &state);
	rec_file_close(wake_file, &state);
	switch_file = wake_file = NULL;
	rings_unmap(&switches);
	rings_unmap(&wakes);
	state.object = NULL;
	sched_bpf__destroy(skel);
	skel = NULL;
}

static int open_all(const struct options *options)
{
	struct windows windows;

	if (load(options))
		return -1;
	windows = (struct windows){ .counts = skel->bss->counts,
				    .given_up_ns = (void *)&skel->data->given_up.since_ns,
				    .cpus = cpus,
				    .switches = &switches,
				    .wakes = &wakes,
				    .state = &state };
	switch_file =
		rec_file_open(options, "switch", bpf_object__btf(skel->obj), "switch_record", NULL);
	wake_file = rec_file_open(options, "wake", bpf_object__btf(skel->obj), "wake_record", NULL);
	if (!switch_file || !wake_file || windows_open(&windows, options))
		return collector_off(
			&state, "free some space",
			"switch.rec, wake.rec or sched_window.jsonl can't be written: %s",
			strerror(errno));
	return 0;
}

static int attach(void)
{
	if (sched_bpf__attach(skel))
		return bpf_attach_failed(&state);
	state.object = skel->obj;
	return 0;
}

static void read_counts(void)
{
	uint64_t no_context = 0, no_storage = 0, full = 0, events = 0, lost = 0;

	for (int cpu = 0; cpu < cpus; cpu++) {
		const volatile struct sched_counts *count = &skel->bss->counts[cpu];

		no_context += count->no_context;
		no_storage += count->no_storage;
		full += count->full;
		events += count->switches + count->wakes;
	}
	reason_set(state.lost, "wake of a task without task storage", no_context);
	reason_set(state.lost, "ring full", full); /* the rest of the window: sched_windows.c */
	reason_set(state.notes, "switches of tasks without task storage", no_storage);
	reason_set(state.notes, "switches and wakes in all, of any task", events);
	if (!contexts_known)
		reason_set(state.notes, "wakes in interrupts are not told from others", 1);
	for (int i = 0; i < MAX_REASONS && state.lost[i].name; i++)
		lost += state.lost[i].count;
	state.seen = state.recorded + lost;
}

static void drain(bool last)
{
	windows_tick(last);
	rings_drain(&switches, switch_file, &state);
	rings_drain(&wakes, wake_file, &state);
	read_counts();
}

static void detach(void)
{
	sched_bpf__detach(skel);
}

static const struct collector_ops sched_collector = {
	.name = "sched",
	.order = 60, /* after threads and events: their programs set the contexts first */
	.on_by_default = true,
	.open = open_all,
	.attach = attach,
	.begin = windows_begin,
	.drain = drain,
	.detach = detach,
	.close = close_all,
	.state = &state,
};

REGISTER_COLLECTOR(sched_collector)
