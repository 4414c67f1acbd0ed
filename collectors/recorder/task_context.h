/* SPDX-License-Identifier: BSD-2-Clause */
/* The map of task contexts (bpf/common/task_context.h): created once, used by several collectors' objects. */
#ifndef SEEKMETER_TASK_CONTEXT_MAP_H
#define SEEKMETER_TASK_CONTEXT_MAP_H

#include <stdbool.h>

struct bpf_map;
struct collector_state;

/*
 * Makes an opened object's map task_contexts the shared one; call it before the load. True: it exists, so
 * have_task_contexts is to be set. False: the kernel has no task storage for tracing, and the map is left out.
 */
bool task_context_share(struct bpf_map *map);
/* The same for its map thread_numbers (bpf/common/thread_number.h), after task_context_share(). */
bool task_context_share_numbers(struct bpf_map *map);
/* Notes what a collector does not know where there is no such map. */
void task_context_note(struct collector_state *state);
void task_context_close(void);

#endif
