/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that a thread holds back to hand them over together (P), and their handing over (U): a row each. */
#ifndef SEEKMETER_BLKTRACE_PLUGS_H
#define SEEKMETER_BLKTRACE_PLUGS_H

#include <stdint.h>

#include "events.h"

#define PLUGS_OPEN 1024

struct requests;

/* The plugs that are open, found by thread and device. Bounded: a newer one may take an old one's place. */
struct plugs {
	struct open_plug {
		uint64_t plug_ns; /* 0: none */
		uint32_t pid, device;
	} open[PLUGS_OPEN];
};

void plugs_begin(struct plugs *plugs, const struct event *event);
/* Writes the row. */
void plugs_end(struct requests *requests, const struct event *event);

#endif
