// SPDX-License-Identifier: BSD-2-Clause
/*
 * CPU time of the recorder's BPF programs, sampled.
 *
 * The kernel can time every run of a program (kernel.bpf_stats_enabled), but the timing costs about as much as a small
 * program. So timing is on in windows of SAMPLE_NS only, one in each PERIOD_NS, at a random time within the period: a
 * periodic event (a commit every 5 s) is then sampled in proportion. The programs' run time divided by the windows'
 * length is their share of CPU time, and the windows' variance gives its confidence interval. Timing is turned on
 * through a file descriptor (BPF_ENABLE_STATS, Linux 5.8), so it ends with this process.
 *
 * A window lasts from one reading of the programs' counters to the next, while timing is on. So the time that the
 * kernel takes to switch does not matter, nor another user of the same switch.
 *
 * Each switch patches kernel code that all CPUs are running, so there are no windows where CPUs are emulated
 * (emulated_cpus()). Skipped runs are counted there too.
 */
#include "bpfstats.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "registry.h"

/* A window is one drain period, so it has the same share of the recorder's own work as all other time. */
#define SAMPLE_NS (DRAIN_MS * 1000000ULL)
#define PERIOD_NS 500000000ULL

static struct bpf_windows windows;
static int stats_fd = -1;
static uint64_t period_ns, next_ns, open_ns;

const struct bpf_windows *bpfstats_windows(void)
{
	return &windows;
}

/* Run time and runs of a collector's programs since they were loaded; updates the counts of skipped runs. */
static struct bpf_cost read_stats(struct collector_state *state)
{
	struct bpf_cost sum = { 0 };
	struct bpf_program *program;

	if (!state->on || !state->object)
		return sum;
	state->recursion_misses = state->skipped = 0;
	bpf_object__for_each_program(program, state->object) {
		struct bpf_prog_info info;
		uint32_t size = sizeof(info);
		int fd = bpf_program__fd(program);

		memset(&info, 0, sizeof(info));
		if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
			continue;
		sum.ns += info.run_time_ns;
		sum.runs += info.run_cnt;
		state->recursion_misses += info.recursion_misses;
		if (!state->begins || !strcmp(bpf_program__name(program), state->begins))
			state->skipped += info.recursion_misses;
	}
	if (state->skipped)
		reason_set(state->lost, "program already running on this CPU", state->skipped);
	if (state->recursion_misses > state->skipped)
		reason_set(state->notes, "program already running on this CPU",
			   state->recursion_misses - state->skipped);
	return sum;
}

static void add(struct bpf_cost *cost, uint64_t ns, uint64_t runs, uint64_t wall_ns)
{
	cost->ns += ns;
	cost->runs += runs;
	cost->ns_squared += (double)ns * ns;
	cost->ns_wall_ns += (double)ns * wall_ns;
}

static void open_window(void)
{
	const struct collector_ops *ops;

	stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
	if (stats_fd < 0)
		return;
	open_ns = monotonic_ns();
	for_each_collector(ops) ops->state->window_start = read_stats(ops->state);
}

void bpfstats_close(void)
{
	const struct collector_ops *ops;
	uint64_t wall_ns = monotonic_ns() - open_ns;
	uint64_t ns = 0, runs = 0;

	if (stats_fd < 0)
		return;
	for_each_collector(ops)
	{
		const struct bpf_cost *start = &ops->state->window_start;
		struct bpf_cost now = read_stats(ops->state);

		add(&ops->state->cost, now.ns - start->ns, now.runs - start->runs, wall_ns);
		ns += now.ns - start->ns;
		runs += now.runs - start->runs;
	}
	close(stats_fd);
	stats_fd = -1;
	add(&windows.all, ns, runs, wall_ns);
	windows.count++;
	windows.wall_ns += wall_ns;
	windows.wall_ns_squared += (double)wall_ns * wall_ns;
}

void bpfstats_tick(uint64_t now_ns)
{
	if (emulated_cpus())
		return;
	if (stats_fd >= 0) {
		if (now_ns >= open_ns + SAMPLE_NS)
			bpfstats_close();
		return;
	}
	if (now_ns >= period_ns + PERIOD_NS) {
		period_ns += PERIOD_NS;
		if (now_ns >=
		    period_ns + PERIOD_NS) /* the first period, or the recorder was late */
			period_ns = now_ns;
		next_ns = period_ns + random() % (PERIOD_NS - SAMPLE_NS);
	}
	if (next_ns && now_ns >= next_ns) {
		next_ns = 0; /* one in each period */
		open_window();
	}
}

void bpfstats_stop(void)
{
	const struct collector_ops *ops;

	for_each_collector(ops) read_stats(ops->state);
}
