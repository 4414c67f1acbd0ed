// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the kernel spends in our programs.
 *
 * The kernel can time every run (kernel.bpf_stats_enabled), but the timing itself costs about as much as a
 * small program. So it's on for SAMPLE_MS of every PERIOD_MS only, and what is reported is the mean of the
 * runs sampled. It is on through a file descriptor (BPF_ENABLE_STATS, 5.8), so it ends with this process.
 *
 * Each switch patches kernel code that all CPUs are running, so it is left out where they are emulated (see
 * emulated_cpus()); the skipped runs are counted all the same.
 */
#include "recorder.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLE_NS 60000000ULL
#define PERIOD_NS 3000000000ULL
#define FIRST_NS  500000000ULL

static int stats_fd = -1;
static uint64_t next_ns;

static void read_stats(const struct source *const *sources, int count)
{
	for (int i = 0; i < count; i++) {
		struct source_state *state = sources[i]->state;
		struct bpf_program *program;

		if (!state->on || !state->object)
			continue;
		state->sampled_ns = state->sampled_runs = state->recursion_misses = 0;
		bpf_object__for_each_program(program, state->object) {
			struct bpf_prog_info info;
			uint32_t size = sizeof(info);
			int fd = bpf_program__fd(program);

			memset(&info, 0, sizeof(info));
			if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
				continue;
			state->sampled_ns += info.run_time_ns;
			state->sampled_runs += info.run_cnt;
			state->recursion_misses += info.recursion_misses;
		}
		if (state->recursion_misses)
			reason_set(state->finds_skipped ? state->notes : state->lost,
				   "program already running on this CPU", state->recursion_misses);
	}
}

void bpfstats_tick(const struct source *const *sources, int count, uint64_t now_ns)
{
	if (!next_ns)
		next_ns = now_ns + FIRST_NS;
	if (now_ns < next_ns || emulated_cpus())
		return;
	if (stats_fd < 0) {
		stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
		next_ns = now_ns + (stats_fd < 0 ? PERIOD_NS : SAMPLE_NS);
	} else {
		close(stats_fd);
		stats_fd = -1;
		read_stats(sources, count);
		next_ns = now_ns + PERIOD_NS;
	}
}

void bpfstats_stop(const struct source *const *sources, int count)
{
	if (stats_fd >= 0)
		close(stats_fd);
	stats_fd = -1;
	read_stats(sources, count);
}
