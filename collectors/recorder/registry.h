/* SPDX-License-Identifier: BSD-2-Clause */
/* All collectors linked into the recorder, in their order; each registers itself before main() runs. */
#ifndef SEEKMETER_REGISTRY_H
#define SEEKMETER_REGISTRY_H

#include "collector.h"

void registry_add(const struct collector_ops *ops);
/* Work that may wait, such as looking up names: called once after all buffers are emptied. */
void registry_add_idle_work(void (*work)(void));

/* At the end of a collector's file: REGISTER_COLLECTOR(ops) */
#define REGISTER_COLLECTOR(ops)                                           \
	__attribute__((constructor)) static void register_collector(void) \
	{                                                                 \
		registry_add(&(ops));                                     \
	}

#define REGISTER_IDLE_WORK(work)                                          \
	__attribute__((constructor)) static void register_idle_work(void) \
	{                                                                 \
		registry_add_idle_work(work);                             \
	}

/* The i-th collector, from 0; NULL: there are no more. */
const struct collector_ops *registry_at(int i);

#define for_each_collector(ops) for (int at_ = 0; ((ops) = registry_at(at_)); at_++)

/* Does all such work, for a bounded time. */
void registry_do_idle_work(void);

#endif
