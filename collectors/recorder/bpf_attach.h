/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Steps that all collectors with BPF programs share, and the reason and remedy when a step fails.
 *
 * A function that returns -1 has set off_reason and remedy in the state, as collector_off() does; it takes the last
 * error from errno.
 */
#ifndef SEEKMETER_BPF_ATTACH_H
#define SEEKMETER_BPF_ATTACH_H

#include "collector.h"

struct bpf_map;
struct bpf_program;
struct btf;

/* The number of CPUs the machine can have, at most BIN_CPUS. */
int bpf_possible_cpus(struct collector_state *state);
/* 0 if the kernel describes its types (BTF), which tracepoint programs need. */
int bpf_check_btf(struct collector_state *state);
/* The kernel's types, to be freed by btf__free(); NULL: as for -1. */
struct btf *bpf_load_kernel_btf(struct collector_state *state);

/* Set the off_reason for a failed step of opening, sizing, loading or attaching the programs; return -1. */
int bpf_open_failed(struct collector_state *state);
int bpf_size_failed(struct collector_state *state);
int bpf_load_failed(struct collector_state *state);
int bpf_attach_failed(struct collector_state *state);

/* Whether some tasks are the workload, and others not. */
bool bpf_has_workload(const struct options *options);
/* Puts the workload's cgroup, if there is one, into the map in which the programs look it up. */
int bpf_set_workload(struct collector_state *state, const struct options *options,
		     const struct bpf_map *map);
/* Puts the further file systems under test into the map more_targets, which options->more_target_count has sized. */
int bpf_set_more_targets(struct collector_state *state, const struct options *options,
			 const struct bpf_map *map);
/* Runs the program of bpf/common/tasks.h that notes this process's ids in the kernel's own PID namespace. */
int bpf_note_recorder(struct collector_state *state, const struct bpf_program *program);

#endif
