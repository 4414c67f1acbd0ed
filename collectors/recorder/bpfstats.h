/* SPDX-License-Identifier: BSD-2-Clause */
/* CPU time of the recorder's BPF programs, sampled, and the runs of them that the kernel skipped. */
#ifndef SEEKMETER_BPFSTATS_H
#define SEEKMETER_BPFSTATS_H

#include "collector.h"

/* The sampled windows, and the cost of all collectors' programs together in them. */
struct bpf_windows {
	uint64_t count, wall_ns;
	double wall_ns_squared;
	struct bpf_cost all;
};

/* Opens and closes windows; to be called every DRAIN_MS. */
void bpfstats_tick(uint64_t now_ns);
/* Closes an open window. To be called before the programs are detached: the window counts until then. */
void bpfstats_close(void);
/* Reads for the last time what is counted outside of windows too: the skipped runs. */
void bpfstats_stop(void);
const struct bpf_windows *bpfstats_windows(void);

#endif
