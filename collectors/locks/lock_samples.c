// SPDX-License-Identifier: BSD-2-Clause
/* CPU samples of the locks collector, bin by bin, into lock_sample.rec (bpf/locks/lock_samples.h). */
#include "sampling.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/records.h"
#include "lock_ids.h"
#include "recorder/bpf_maps.h"
#include "recorder/collector.h"
#include "recorder/cpu_timers.h"
#include "recorder/options.h"
#include "recorder/rec_file.h"
#include "recorder/stacks.h"
#include "recorder/time_bins.h"
#include "spin_ranges.h"

#include "locks.skel.h" /* uses the types of records.h */

#define BATCH 256

static struct collector_state *state;
static struct locks_bpf *skel;
static struct rec_file *file;
static uint64_t bin_ns;
static struct bins bins;
static int cpus;
static int bin_fds[LOCK_BIN_SLOTS]; /* maps */
static struct lock_sample_key keys[BATCH];
static uint64_t *sums; /* BATCH x cpus */
static struct lock_sample_record records[BATCH];
static char why_off[256];

static uint32_t range_count; /* 0: sampling is off */
static struct cpu_timers timers;

static void drain_bin(uint64_t bin);

/* A lost sample is no lost wait: samples are counted in notes. */
static uint64_t no_events(const void *record)
{
	(void)record;
	return 0;
}

/* Turns sampling off; the collector goes on without samples. */
static void off(const char *why, int error)
{
	snprintf(why_off, sizeof(why_off), "CPU sampling is off: %s%s%s", why, error ? ": " : "",
		 error ? strerror(error) : "");
	reason_set(state->notes, why_off, 1);
	range_count = 0;
	bins_end(&bins); /* the bins are not emptied any more, and full bins block cuts */
}

/* Entries of a bin's map: at most one per sample in the bin; most samples share few call paths. */
static uint32_t sums_entries(void)
{
	uint64_t entries = 64 + 2 * cpus * bin_ns / SAMPLE_PERIOD_NS;

	return entries < 4096 ? entries : 4096;
}

void lock_samples_prepare(struct locks_bpf *object, const struct options *options,
			  struct collector_state *source)
{
	skel = object;
	state = source;
	bin_ns = options->bin_ns;
	cpus = libbpf_num_possible_cpus();

	range_count = spin_ranges_find((void *)skel->rodata->spin_ranges, state);
	if (!range_count)
		off("/proc/kallsyms has no addresses: set kernel.kptr_restrict to 0 or 1", 0);
	if (!range_count)
		bpf_program__set_autoload(skel->progs.lock_sample, false);
	skel->rodata->spin_range_count = range_count;
}

static void unwritten(const void *record)
{
	reason_add(state->notes, "CPU samples not kept: could not be written",
		   ((const struct lock_sample_record *)record)->count);
}

int lock_samples_open(struct locks_bpf *object, const struct options *options)
{
	struct slot_shape shape = { BPF_MAP_TYPE_PERCPU_HASH, sizeof(struct lock_sample_key),
				    sizeof(*sums), sums_entries() };
	int err;

	file = rec_file_open(options, "lock_sample", bpf_object__btf(object->obj),
			     "lock_sample_record", NULL);
	if (!file)
		return -1;
	rec_file_events(file, no_events);
	rec_file_unwritten(file, unwritten);
	if (!range_count)
		return 0;
	skel = object;
	if (map_create_slots(skel->maps.sample_bins, &shape, bin_fds)) {
		off("the maps of time bins can't be made", errno);
		return 0;
	}
	bins = (struct bins){ .epochs = skel->bss->sample_epochs,
			      .cuts = &skel->bss->sample_cuts,
			      .drained_to = &skel->bss->samples_drained_to,
			      .slots = LOCK_BIN_SLOTS,
			      .cpus = cpus,
			      .drain_bin = drain_bin };
	bins_begin(&bins);
	sums = calloc((size_t)BATCH * cpus, sizeof(*sums));
	if (!sums) {
		off("no memory", 0);
		return 0;
	}
	err = cpu_timers_start(&timers, skel->progs.lock_sample, cpus, state);
	if (err) {
		cpu_timers_stop(&timers);
		off("the kernel refused a timer (perf_event_open)", err);
	}
	return 0;
}

/* Makes a row from the sums of all CPUs. */
static struct lock_sample_record merge(uint64_t bin, const struct lock_sample_key *key,
				       const uint64_t *parts)
{
	struct lock_sample_record row;

	memset(&row, 0, sizeof(row)); /* with the padding: it goes to the file */
	row.bin_ns = bins_start_ns(bin);
	row.length_ns = bins_length_ns(bin);
	row.lock_id = lock_id(key->lock);
	row.period_ns = SAMPLE_PERIOD_NS;
	row.doing = key->doing;
	row.in_workload = key->task.in_workload;
	row.waiter = key->task.who;
	memcpy(row.waiter_name, key->task.name, sizeof(row.waiter_name));
	for (int cpu = 0; cpu < cpus; cpu++)
		row.count += parts[cpu];
	return row;
}

static void take_sums(uint64_t bin, uint32_t count)
{
	int stacks = bpf_map__fd(skel->maps.stacks);
	size_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct lock_sample_record *row = &records[kept];

		*row = merge(bin, &keys[i], &sums[(size_t)i * cpus]);
		if (keys[i].lock && !row->lock_id) {
			reason_add(state->notes, "CPU samples not kept: too many locks",
				   row->count);
			continue;
		}
		if (!stacks_note(stacks, keys[i].stack_id, &row->stack_id))
			reason_add(state->notes, "stack not written", 1);
		kept++;
	}
	(void)rec_file_write(file, state, records, kept);
}

static void drain_bin(uint64_t bin)
{
	if (!bins_take(bin_fds[bin % LOCK_BIN_SLOTS], bin, keys, sums, BATCH, take_sums))
		reason_add(state->notes, "a bin's CPU samples could not be read", 1);
}

/* A note that is written only if the count is not 0. */
static void note(const char *name, uint64_t count)
{
	if (count)
		reason_set(state->notes, name, count);
}

static void read_counts(void)
{
	struct lock_sample_counts sum;

	if (!map_sum_cpus(skel->maps.sample_counts, cpus, &sum, sizeof(sum)))
		return;
	reason_set(state->notes, "CPU samples", sum.samples);
	reason_set(state->notes, "CPU samples in spinning functions", sum.spinning);
	reason_set(state->notes, "CPU samples holding what others wait for", sum.holding);
	reason_set(state->notes, "CPU samples left out (idle CPU, interrupts off)",
		   cpu_timers_left_out(&timers, sum.samples));
	note("CPU samples without a stack", sum.no_stack);
	note("CPU samples not kept: map full", sum.map_full);
	note("CPU samples not kept: map busy", sum.map_busy);
	note("CPU samples not kept: recorder late", sum.late);
}

void lock_samples_drain(bool last)
{
	if (!range_count)
		return;
	bins_drain(&bins, last);
	if (!last)
		cpu_timers_follow(&timers);
	read_counts();
}

void lock_samples_detach(void)
{
	cpu_timers_stop(&timers);
}

void lock_samples_close(void)
{
	cpu_timers_free(&timers);
	bins_end(&bins);
	map_close_slots(bin_fds, LOCK_BIN_SLOTS);
	rec_file_close(file, state);
	file = NULL;
	free(sums);
	sums = NULL;
	skel = NULL;
}
