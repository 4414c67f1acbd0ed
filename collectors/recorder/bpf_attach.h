/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every source made of BPF programs asks of the machine, and says when it can't be had. What returns -1 has
 * said why in the state, as source_off() does; the last error is taken from errno.
 */
#ifndef SEEKMETER_PROGRAMS_H
#define SEEKMETER_PROGRAMS_H

#include "recorder.h"

struct bpf_map;
struct bpf_program;

/* How many CPUs the machine can have; at most BIN_CPUS. */
int programs_cpus(struct source_state *state);
/* Does the kernel describe its types, which programs of tracepoints need? */
int programs_need_types(struct source_state *state);
int programs_not_opened(struct source_state *state);
int programs_not_sized(struct source_state *state);
int programs_not_loaded(struct source_state *state);
int programs_not_attached(struct source_state *state);
/* Puts the workload's cgroup, if there is one, into the map in which the programs look. */
int programs_watch_workload(struct source_state *state, const struct options *options,
			    const struct bpf_map *map);
/* Runs the program of bpf/common/tasks.h that notes our own processes' numbers, the kernel's own (not our namespace's). */
int programs_note_who_we_are(struct source_state *state, const struct bpf_program *program);

#endif
