// SPDX-License-Identifier: BSD-2-Clause
/* The budget of the sched collector: see sched_windows.h. */
#include "sched_windows.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/records.h"
#include "recorder/clock.h"
#include "recorder/collector.h"
#include "recorder/jsonl.h"
#include "recorder/options.h"
#include "recorder/rings.h"

#define WINDOW_NS   NS_PER_SEC
#define OVER_BUDGET "given up: over the budget"
#define RING_FULL   "given up: ring full"

/* One CPU's counts when the window, or its part that is given up, began. */
struct cpu_begin {
	uint64_t records, events, skipped;
	uint64_t
		others; /* events without a record in a second, of the last part that was recorded */
};

static struct jsonl file = { .fd = -1 };
static struct windows with;
static struct cpu_begin *begins;		  /* by CPU */
static uint64_t *events;			  /* by CPU: scratch */
static uint64_t window_ns;			  /* begin of the window */
static uint64_t skipped_switches, skipped_events; /* of all CPUs, up to the last gap */
/* The window is given up from here to its end; 0: it is not. */
static uint64_t gap_ns;
static const char *why;
static uint64_t last_gap_ns, last_gap_end_ns; /* the last gap that is over */

/* SEEKMETER_SCHED_BUDGET=N is the budget of each CPU and of all: for tests. */
static uint64_t budget(uint64_t usual)
{
	static uint64_t given;
	const char *text = given ? NULL : getenv("SEEKMETER_SCHED_BUDGET");

	if (text)
		given = strtoull(text, NULL, 10);
	return given ? given : usual;
}

static struct sched_counts counts_of(int cpu)
{
	return *(const volatile struct sched_counts *)&with.counts[cpu];
}

static uint64_t records_of(int cpu)
{
	return rings_head(with.switches, cpu) + rings_head(with.wakes, cpu);
}

static uint64_t events_of(const struct sched_counts *count)
{
	return count->switches + count->wakes;
}

static uint64_t skipped_of(const struct sched_counts *count)
{
	return count->skipped_switches + count->skipped_wakes;
}

static uint64_t per_second(uint64_t count, uint64_t ns)
{
	return ns ? (double)count * NS_PER_SEC / ns : 0;
}

static bool exceeds_budget(void)
{
	uint64_t sum = 0;

	for (int cpu = 0; cpu < with.cpus; cpu++) {
		if (events[cpu] > budget(EVENTS_OF_CPU))
			return true;
		sum += events[cpu];
	}
	return sum > budget(EVENTS_IN_ALL);
}

/* Are the records of this window over the budget already? */
static bool window_exceeds(void)
{
	for (int cpu = 0; cpu < with.cpus; cpu++)
		events[cpu] = records_of(cpu) - begins[cpu].records;
	return exceeds_budget();
}

/* Would records in a second like the gap be over it? What had no record before would have none. */
static bool gap_exceeds(uint64_t now_ns)
{
	for (int cpu = 0; cpu < with.cpus; cpu++) {
		struct sched_counts count = counts_of(cpu);
		uint64_t rate =
			per_second(skipped_of(&count) - begins[cpu].skipped, now_ns - gap_ns);

		events[cpu] = rate > begins[cpu].others ? rate - begins[cpu].others : 0;
	}
	return exceeds_budget();
}

static void begin_window(uint64_t now_ns)
{
	window_ns = now_ns;
	for (int cpu = 0; cpu < with.cpus; cpu++) {
		struct sched_counts count = counts_of(cpu);

		begins[cpu].records = records_of(cpu);
		begins[cpu].events = events_of(&count);
		begins[cpu].skipped = skipped_of(&count);
	}
}

/* The rest of the window is given up, from a moment on that may be some milliseconds ago. */
static void begin_gap(uint64_t from_ns, const char *reason)
{
	for (int cpu = 0; cpu < with.cpus; cpu++) {
		struct sched_counts count = counts_of(cpu);
		uint64_t seen = events_of(&count) - begins[cpu].events -
				(skipped_of(&count) - begins[cpu].skipped);
		uint64_t recorded = records_of(cpu) - begins[cpu].records;

		begins[cpu].others =
			per_second(seen > recorded ? seen - recorded : 0, from_ns - window_ns);
	}
	gap_ns = from_ns;
	why = reason;
}

/* Counts what was skipped since the last call; returns the switches among it. */
static uint64_t count_skipped(void)
{
	uint64_t switches = 0, all = 0, new_switches;

	for (int cpu = 0; cpu < with.cpus; cpu++) {
		struct sched_counts count = counts_of(cpu);

		switches += count.skipped_switches;
		all += skipped_of(&count);
	}
	if (why)
		reason_add(with.state->lost, why, all - skipped_events);
	new_switches = switches - skipped_switches;
	skipped_switches = switches;
	skipped_events = all;
	return new_switches;
}

static void write_gap(uint64_t end_ns)
{
	char line[192];
	int bytes =
		snprintf(line, sizeof(line),
			 "{\"start_ns\":%llu,\"end_ns\":%llu,\"switches\":%llu,\"why\":\"%s\"}\n",
			 (unsigned long long)gap_ns, (unsigned long long)end_ns,
			 (unsigned long long)count_skipped(), why + sizeof("given up:"));

	reason_add(with.state->notes, "windows given up", 1);
	if (!jsonl_append(&file, line, bytes))
		reason_add(with.state->notes, "windows given up that are not written down", 1);
}

/* A window that was given up is over: the next one is recorded, unless it would be given up too. */
static void end_gap(uint64_t now_ns, bool last)
{
	if (!last && gap_exceeds(now_ns)) {
		write_gap(now_ns);
		begin_window(now_ns);
		gap_ns = now_ns;
		why = OVER_BUDGET;
		return;
	}
	if (!last) {
		__atomic_store_n(with.given_up_ns, 0, __ATOMIC_SEQ_CST);
		now_ns = monotonic_ns(); /* a program that saw the flag did so before */
	}
	write_gap(now_ns);
	last_gap_ns = gap_ns;
	last_gap_end_ns = now_ns;
	gap_ns = 0;
	begin_window(now_ns);
}

int windows_open(const struct windows *windows, const struct options *options)
{
	with = *windows;
	begins = calloc(with.cpus, sizeof(*begins));
	events = calloc(with.cpus, sizeof(*events));
	return begins && events ? jsonl_open(&file, options->whole_fd, "sched_window.jsonl") : -1;
}

void windows_begin(void)
{
	count_skipped(); /* before the recording */
	__atomic_store_n(with.given_up_ns, 0, __ATOMIC_SEQ_CST);
	begin_window(monotonic_ns());
}

void windows_tick(bool last)
{
	uint64_t now_ns = monotonic_ns();
	uint64_t given_up_ns = __atomic_load_n(with.given_up_ns, __ATOMIC_ACQUIRE);

	if (!gap_ns && given_up_ns) {
		begin_gap(given_up_ns, RING_FULL);
	} else if (!gap_ns && !last && window_exceeds()) {
		__atomic_compare_exchange_n(with.given_up_ns, &given_up_ns, now_ns, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		begin_gap(*with.given_up_ns, OVER_BUDGET);
	}
	if (last || now_ns - window_ns >= WINDOW_NS) {
		if (gap_ns)
			end_gap(now_ns, last);
		else
			begin_window(now_ns);
	}
	jsonl_flush(&file);
}

bool windows_keep(uint64_t t_ns)
{
	uint64_t given_up_ns = *with.given_up_ns;

	if ((!given_up_ns || t_ns < given_up_ns) && (t_ns < last_gap_ns || t_ns >= last_gap_end_ns))
		return true;
	/* Another CPU was still writing it. A program may have given up since the last tick. */
	reason_add(with.state->lost, why && (gap_ns || !given_up_ns) ? why : RING_FULL, 1);
	return false;
}

void windows_close(void)
{
	if (!jsonl_close(&file))
		fprintf(stderr,
			"recorder: sched_window.jsonl: the last windows could not be written\n");
	free(begins);
	free(events);
	begins = NULL;
	events = NULL;
}
