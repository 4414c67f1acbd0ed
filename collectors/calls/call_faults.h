/* SPDX-License-Identifier: BSD-2-Clause */
/* Page faults on mapped files: which of the programs of bpf/calls/call_faults.h the kernel can run. */
#ifndef SEEKMETER_CALL_FAULTS_ATTACH_H
#define SEEKMETER_CALL_FAULTS_ATTACH_H

struct calls_bpf;
struct collector_state;

/* Before the object is loaded. 0, or -1. */
int call_faults_choose(struct calls_bpf *skel);
/* Without them the collector goes on; a note has the reason. */
void call_faults_attach(struct calls_bpf *skel, int cpus, struct collector_state *state);
void call_faults_detach(void);

#endif
