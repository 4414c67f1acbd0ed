// SPDX-License-Identifier: BSD-2-Clause
/* The map of task contexts: see task_context.h. */
#include "task_context.h"

#include <bpf/libbpf.h>

#include "collector.h"
#include "features.h"

#include "task_context.skel.h"

static struct task_context_bpf *skel;

static bool create(void)
{
	if (skel)
		return true;
	if (!features_task_storage())
		return false;
	skel = task_context_bpf__open_and_load();
	return skel;
}

bool task_context_share(struct bpf_map *map)
{
	if (create() && !bpf_map__reuse_fd(map, bpf_map__fd(skel->maps.task_contexts)))
		return true;
	bpf_map__set_autocreate(map, false);
	return false;
}

bool task_context_share_numbers(struct bpf_map *map)
{
	if (create() && !bpf_map__reuse_fd(map, bpf_map__fd(skel->maps.thread_numbers)))
		return true;
	bpf_map__set_autocreate(map, false);
	return false;
}

void task_context_note(struct collector_state *state)
{
	/* The report looks for this text: analysis/sections/whys.py. */
	reason_set(state->notes, "calls and waits of tasks: not shown by this kernel", !skel);
}

void task_context_close(void)
{
	task_context_bpf__destroy(skel);
	skel = NULL;
}
