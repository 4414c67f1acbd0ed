/* SPDX-License-Identifier: BSD-2-Clause */
/* The locks source's CPU samples: lock_sample.rec; what they mean is in bpf/locks/lock_samples.h. */
#ifndef SEEKMETER_RECORDER_LOCK_SAMPLES_H
#define SEEKMETER_RECORDER_LOCK_SAMPLES_H

#include <stdbool.h>

struct collector_state;
struct options;

struct locks_bpf;

/* Before the BPF object is loaded: where the kernel spins. Without that there are no samples. */
void lock_samples_prepare(struct locks_bpf *skel, const struct options *options,
			  struct collector_state *state);
/*
 * Starts sampling. Where that can't be done the source goes on without, and its notes say why; -1 only if
 * lock_sample.rec can't be written (errno is set).
 */
int lock_samples_open(struct locks_bpf *skel, const struct options *options);
void lock_samples_drain(bool last);
/* Stops sampling; what was counted stays to be drained. */
void lock_samples_detach(void);
void lock_samples_close(void);

#endif
