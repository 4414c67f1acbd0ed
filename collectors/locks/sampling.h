/* SPDX-License-Identifier: BSD-2-Clause */
/* CPU samples of the locks collector: lock_sample.rec; bpf/locks/lock_samples.h defines the samples. */
#ifndef SEEKMETER_RECORDER_LOCK_SAMPLES_H
#define SEEKMETER_RECORDER_LOCK_SAMPLES_H

#include <stdbool.h>

struct collector_state;
struct options;

struct locks_bpf;

/* Before the BPF object is loaded: finds the kernel's spinning functions. If there are none, sampling is off. */
void lock_samples_prepare(struct locks_bpf *skel, const struct options *options,
			  struct collector_state *state);
/*
 * Starts sampling. If that fails the collector goes on without samples, and a note has the reason. -1 with errno set
 * only if lock_sample.rec can't be written.
 */
int lock_samples_open(struct locks_bpf *skel, const struct options *options);
void lock_samples_drain(bool last);
/* Stops sampling; the sums can still be drained. */
void lock_samples_detach(void);
void lock_samples_close(void);

#endif
