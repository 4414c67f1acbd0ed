// SPDX-License-Identifier: BSD-2-Clause
/*
 * The events collector: what the file system, writeback and reclaim do on their own, one row each, into event.rec; and the
 * bytes that become dirty, summed in time bins, into dirtied.rec.
 *
 * Kernels differ in what they show, and modules may be missing: event_kind.jsonl says which kinds of events this recording
 * can have.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "common/records.h"
#include "event_reasons.h"
#include "event_sources.h"
#include "event_table.h"
#include "recorder/bpf_attach.h"
#include "recorder/bpf_maps.h"
#include "recorder/clock.h"
#include "recorder/ksyms.h"
#include "recorder/options.h"
#include "recorder/rec_file.h"
#include "recorder/refusal.h"
#include "recorder/registry.h"
#include "recorder/task_context.h"
#include "recorder/time_bins.h"

#include "events.skel.h" /* uses the types of records.h */

#define BUDGET_IN_ALL 4000 /* events of one kind in 100 ms, over all CPUs */
#define BUDGET_LEAST  16

/* A skip loses no event by itself: an end without a begin, or a begin after a begin, is counted. */
static struct collector_state state = { .begins = "" };
static struct events_bpf *skel;
static struct rec_file *dirtied;
static struct dirtied_cell *cells;
static size_t cells_bytes;
static int cpus;
static struct bins bins;
static unsigned int refused; /* bits of sources */

static void drain_bin(uint64_t bin);

static uint64_t jiffy_ns(void)
{
	struct timespec length;

	/* The coarse clock advances once a jiffy. */
	if (clock_getres(CLOCK_MONOTONIC_COARSE, &length))
		return 0;
	return length.tv_sec * NS_PER_SEC + length.tv_nsec;
}

/* Opens the object for these sources. 0; or -1 with the reason set. */
static int open_object(const struct options *options, unsigned int sources)
{
	struct btf *btf = bpf_load_kernel_btf(&state);
	uint32_t share = map_entries("SEEKMETER_EVENTS_AT_ONCE", BUDGET_IN_ALL) / cpus;

	if (!btf)
		return -1;
	skel = events_bpf__open();
	if (!skel) {
		btf__free(btf);
		return bpf_open_failed(&state);
	}
	reasons_of_writeback(btf, (uint8_t *)skel->rodata->reasons);
	btf__free(btf);
	skel->rodata->cpus = cpus;
	skel->rodata->budget = share > BUDGET_LEAST ? share : BUDGET_LEAST;
	skel->rodata->jiffy_ns = jiffy_ns();
	skel->rodata->bin_ns = options->bin_ns;
	skel->rodata->have_task_contexts = task_context_share(skel->maps.task_contexts);
	skel->rodata->have_more_targets = options->more_target_count > 0;
	skel->bss->target_dev = options->target_dev;
	if (sources_choose(skel->obj, sources) ||
	    bpf_map__set_max_entries(skel->maps.dirtied_cells, cpus * DIRTIED_BIN_SLOTS) ||
	    (options->more_target_count > 0 &&
	     bpf_map__set_max_entries(skel->maps.more_targets, options->more_target_count)))
		return bpf_size_failed(&state);
	return 0;
}

static void close_object(void)
{
	events_bpf__destroy(skel);
	skel = NULL;
}

/* Loads each source by itself: the ones that the kernel refuses are left out. */
static int load_in_parts(const struct options *options)
{
	bool any = false;

	for (enum event_source source = 0; source < SOURCES; source++) {
		if (!source_is_here(source))
			continue;
		if (open_object(options, 1U << source))
			return -1;
		if (events_bpf__load(skel))
			refused |= 1U << source;
		else
			any = true;
		close_object();
	}
	if (!any)
		return bpf_load_failed(&state);
	if (open_object(options, ALL_SOURCES & ~refused))
		return -1;
	return events_bpf__load(skel) ? bpf_load_failed(&state) : 0;
}

static int load(const struct options *options)
{
	cpus = bpf_possible_cpus(&state);
	if (cpus < 0 || bpf_check_btf(&state))
		return -1;
	if (!sources_find())
		return collector_off(&state, "use a kernel with CONFIG_DEBUG_INFO_BTF",
				     "the kernel's type information can't be read: %s",
				     strerror(errno));
	if (open_object(options, ALL_SOURCES))
		return -1;
	if (events_bpf__load(skel)) {
		close_object();
		if (load_in_parts(options))
			return -1;
	}
	cells_bytes = map_bytes(sizeof(*cells), (size_t)cpus * DIRTIED_BIN_SLOTS);
	cells = map_memory(skel->maps.dirtied_cells, cells_bytes, PROT_READ | PROT_WRITE);
	if (!cells)
		return collector_off(&state, "free some memory", "the sums can't be mapped: %s",
				     strerror(errno));
	return bpf_set_more_targets(&state, options, skel->maps.more_targets);
}

static void close_all(void)
{
	bins_end(&bins);
	event_table_close(&state);
	rec_file_close(dirtied, &state);
	dirtied = NULL;
	unmap_memory(cells, cells_bytes);
	cells = NULL;
	state.object = NULL;
	close_object();
}

/* A row of dirtied bytes stands for no event. */
static uint64_t events_of_dirtied(const void *row)
{
	(void)row;
	return 0;
}

static void dirtied_unwritten(const void *row)
{
	(void)row;
	reason_add(state.notes, "time bins of dirtied bytes not written", 1);
}

static int open_all(const struct options *options)
{
	if (load(options))
		return -1;
	dirtied = rec_file_open(options, "dirtied", bpf_object__btf(skel->obj), "dirtied_record",
				NULL);
	if (!dirtied || event_table_open(options, skel, &state) || sources_write(options, refused))
		return collector_off(&state, "free some space", "event.rec can't be written: %s",
				     strerror(errno));
	rec_file_events(dirtied, events_of_dirtied);
	rec_file_unwritten(dirtied, dirtied_unwritten);
	if (source_is_here(SOURCE_XFS))
		(void)ksyms_load(); /* now rather than while events come in */
	bins = (struct bins){ .epochs = skel->bss->epochs,
			      .cuts = &skel->bss->cuts,
			      .drained_to = &skel->bss->drained_to,
			      .slots = DIRTIED_BIN_SLOTS,
			      .cpus = cpus,
			      .drain_bin = drain_bin };
	bins_begin(&bins);
	return 0;
}

static int attach(void)
{
	if (events_bpf__attach(skel))
		return bpf_attach_failed(&state);
	state.object = skel->obj;
	return 0;
}

static void drain_bin(uint64_t bin)
{
	struct dirtied_record row = { .bin_ns = bins_start_ns(bin),
				      .length_ns = bins_length_ns(bin) };

	for (int cpu = 0; cpu < cpus; cpu++) {
		struct dirtied_cell *cell =
			&cells[cpu * DIRTIED_BIN_SLOTS + bin % DIRTIED_BIN_SLOTS];

		row.bytes += cell->bytes;
		row.folios += cell->folios;
		row.large_folio_bytes += cell->large_folio_bytes;
		memset(cell, 0, sizeof(*cell));
	}
	if (row.folios)
		(void)rec_file_write(dirtied, &state, &row, 1);
}

static void read_counts(void)
{
	static char too_many[EVENT_KINDS][48];
	struct event_counts sum;

	if (!map_sum_cpus(skel->maps.counts, cpus, &sum, sizeof(sum)))
		return;
	state.seen = 0;
	for (int kind = 1; kind < EVENT_KINDS; kind++) {
		state.seen += sum.seen[kind];
		if (!sum.over_budget[kind])
			continue;
		snprintf(too_many[kind], sizeof(too_many[kind]), "too many at once: %s",
			 source_kind_name(kind));
		/* Of readahead, a part is what is wanted. */
		if (kind == EVENT_KIND_READAHEAD)
			state.seen -= sum.over_budget[kind];
		reason_set(kind == EVENT_KIND_READAHEAD ? state.notes : state.lost, too_many[kind],
			   sum.over_budget[kind]);
	}
	state.seen -= event_table_doubles();
	reason_set(state.lost, "recorder late", sum.ring_full);
	reason_set(state.lost, "no room for open events", sum.no_room);
	reason_set(state.notes, "begun before the start", sum.not_begun);
	reason_set(state.lost, "begun again before its end was seen", sum.begin_again);
	reason_set(state.notes, "dirtied folios not counted: recorder late", sum.dirtied_late);
	reason_set(state.notes, "rounds of writeback that wrote no inode", sum.empty);
	reason_set(state.notes, "journal commits asked for, by their wake", sum.asked_wakes);
	task_context_note(&state);
}

static void drain(bool last)
{
	bins_drain(&bins, last);
	event_table_drain(last);
	read_counts();
}

static void retarget(uint32_t dev)
{
	skel->bss->target_dev = dev;
}

static void detach(void)
{
	events_bpf__detach(skel);
	__atomic_store_n(&skel->bss->is_over, true, __ATOMIC_RELEASE);
}

static const struct collector_ops events_collector = {
	.name = "events",
	.order = 45,
	.on_by_default = true,
	.open = open_all,
	.attach = attach,
	.drain = drain,
	.retarget = retarget,
	.detach = detach,
	.close = close_all,
	.state = &state,
};

REGISTER_COLLECTOR(events_collector)
