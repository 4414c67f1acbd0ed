// SPDX-License-Identifier: BSD-2-Clause
/*
 * CPU samples of the locks collector, bin by bin, into lock_sample.rec: one timer per CPU (bpf/locks/lock_samples.h).
 *
 * A CPU that goes offline loses its timer; it gets a new one when it is back (checked once a second). The kernel counts
 * the time each timer ran, which gives the number of missing samples: a timer late by more than its period (idle CPU,
 * interrupts off, a virtual CPU that is not run) leaves out the samples in between.
 */
#include "sampling.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/records.h"
#include "lock_ids.h"
#include "locks/names/lock_functions.h"
#include "recorder/bpf_maps.h"
#include "recorder/clock.h"
#include "recorder/collector.h"
#include "recorder/ksyms.h"
#include "recorder/options.h"
#include "recorder/rec_file.h"
#include "recorder/stacks.h"
#include "recorder/time_bins.h"

#include "locks.skel.h" /* uses the types of records.h */

#define BATCH	 256
#define CHECK_NS 1000000000ULL
#define ONLINE	 "/sys/devices/system/cpu/online"

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

static struct spin_range ranges[SPIN_RANGES];
static uint32_t range_count;
static bool optimistic_apart; /* rwsem_optimistic_spin() is not inlined */

static struct timer {
	struct bpf_link *link; /* NULL: none, the CPU is offline */
	int fd;
	uint64_t ran_ns; /* as last read */
} * timers;		 /* by CPU */
static uint64_t ran_ns;	 /* of all timers */
static uint64_t next_check_ns;

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

static void add_range(const char *name, uint64_t begin, uint64_t end)
{
	int kind = spin_kind_of(name);

	if (kind < 0)
		return;
	if (range_count == SPIN_RANGES) {
		reason_add(state->notes, "spinning functions too many to look for", 1);
		return;
	}
	ranges[range_count++] = (struct spin_range){ .begin = begin, .end = end, .kind = kind };
	if (!strncmp(name, "rwsem_optimistic_spin", strcspn(name, ".")))
		optimistic_apart = true;
}

/* Where rwsem_optimistic_spin() is not inlined, the slow path around it does not spin. */
static void drop_rwsem_slowpath(void)
{
	for (uint32_t i = 0; i < range_count; i++)
		if (ranges[i].kind == SPIN_RWSEM)
			ranges[i].kind = SPIN_NOT;
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

	range_count = 0;
	optimistic_apart = false;
	ksyms_each_function(add_range);
	if (optimistic_apart)
		drop_rwsem_slowpath();
	if (!range_count)
		off("/proc/kallsyms has no addresses: set kernel.kptr_restrict to 0 or 1", 0);
	if (!range_count)
		bpf_program__set_autoload(skel->progs.lock_sample, false);
	memcpy((void *)skel->rodata->spin_ranges, ranges, sizeof(ranges));
	skel->rodata->spin_range_count = range_count;
}

/* 0, or an errno. */
static int start_timer(int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = SAMPLE_PERIOD_NS,
		.disabled = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	struct bpf_link *link;
	int err;

	if (fd < 0)
		return errno;
	link = bpf_program__attach_perf_event(skel->progs.lock_sample, fd);
	if (!link) {
		err = errno;
		close(fd);
		return err;
	}
	timers[cpu] = (struct timer){ .link = link, .fd = fd };
	return 0;
}

/* Adds the time since the last read; false: the timer stands still. */
static bool read_timer(struct timer *timer)
{
	uint64_t now_ns;
	bool moved = false;

	if (read(timer->fd, &now_ns, sizeof(now_ns)) == sizeof(now_ns)) {
		moved = now_ns > timer->ran_ns;
		ran_ns += now_ns - timer->ran_ns;
		timer->ran_ns = now_ns;
	}
	return moved;
}

static void stop_timer(struct timer *timer)
{
	if (!timer->link)
		return;
	read_timer(timer);
	bpf_link__destroy(timer->link); /* closes the event */
	timer->link = NULL;
}

/* Parses "0-3,5" into online[cpu]; false: the file can't be read. */
static bool read_online(bool *online)
{
	FILE *in = fopen(ONLINE, "re");
	int first, last;
	char then = ',';

	if (!in)
		return false;
	memset(online, 0, cpus);
	while (then == ',' && fscanf(in, "%d", &first) == 1) {
		last = first;
		then = fgetc(in);
		if (then == '-' && fscanf(in, "%d", &last) == 1)
			then = fgetc(in);
		for (int cpu = first; cpu >= 0 && cpu <= last && cpu < cpus; cpu++)
			online[cpu] = true;
	}
	fclose(in);
	return true;
}

/* Starts a timer on each online CPU and closes those of offline CPUs. Returns 0, or the errno of the failed call. */
static int follow_cpus(bool first)
{
	bool online[BIN_CPUS];
	int err = 0, failed;

	if (!read_online(online))
		return errno;
	for (int cpu = 0; cpu < cpus; cpu++) {
		struct timer *timer = &timers[cpu];

		/* A timer stops for good if its CPU goes offline, also when the CPU comes back. */
		if (timer->link && (!read_timer(timer) || !online[cpu])) {
			stop_timer(timer);
			reason_add(state->notes, "CPUs that went offline while they were sampled",
				   1);
		}
		if (timer->link)
			continue;
		failed = online[cpu] ? start_timer(cpu) : 0;
		if (first && !online[cpu])
			reason_add(state->notes, "CPUs offline when sampling began", 1);
		if (failed && failed != ENODEV &&
		    failed != ENXIO) /* ENODEV and ENXIO: the CPU has just gone offline */
			err = failed;
	}
	return err;
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
	timers = calloc(cpus, sizeof(*timers));
	ran_ns = 0;
	next_check_ns = monotonic_ns() + CHECK_NS;
	if (!sums || !timers) {
		off("no memory", 0);
		return 0;
	}
	err = follow_cpus(true);
	if (err) {
		lock_samples_detach();
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
	for (size_t i = rec_file_write(file, state, records, kept); i < kept; i++)
		reason_add(state->notes, "CPU samples not kept: could not be written",
			   records[i].count);
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
		   ran_ns / SAMPLE_PERIOD_NS > sum.samples ? ran_ns / SAMPLE_PERIOD_NS - sum.samples
							   : 0);
	note("CPU samples without a stack", sum.no_stack);
	note("CPU samples not kept: map full", sum.map_full);
	note("CPU samples not kept: map busy", sum.map_busy);
	note("CPU samples not kept: recorder late", sum.late);
}

void lock_samples_drain(bool last)
{
	uint64_t now = monotonic_ns();

	if (!range_count)
		return;
	bins_drain(&bins, last);
	if (now >= next_check_ns && !last) {
		/* Timers worked at the start, so a failure now is tried again. */
		if (follow_cpus(false))
			reason_add(state->notes, "CPU sampling could not go on on a CPU", 1);
		next_check_ns = now + CHECK_NS;
	}
	read_counts();
}

void lock_samples_detach(void)
{
	for (int cpu = 0; timers && cpu < cpus; cpu++)
		stop_timer(&timers[cpu]);
}

void lock_samples_close(void)
{
	lock_samples_detach();
	bins_end(&bins);
	map_close_slots(bin_fds, LOCK_BIN_SLOTS);
	rec_file_close(file, state);
	file = NULL;
	free(timers);
	timers = NULL;
	free(sums);
	sums = NULL;
	skel = NULL;
}
