/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Number of a cgroup2 directory, its inode, as bpf_get_current_cgroup_id() gives it. 0: not known, or a directory of a cgroup
 * v1 hierarchy, which numbers its directories by itself.
 */
#ifndef SEEKMETER_CGROUP_ID_H
#define SEEKMETER_CGROUP_ID_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define CGROUP_ROOT_ID 1 /* of cgroup2's root: kernel threads are there */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* linux/cgroup-defs.h, linux/kernfs.h */
struct kernfs_node {
	u64 id;
};

struct cgroup_root {
	int hierarchy_id; /* 0: cgroup2 */
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgroup_subsys {
	int id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys *ss;
};

struct css_set {
	struct cgroup *dfl_cgrp; /* of cgroup2 */
};

struct task_struct___cgroups {
	struct css_set *cgroups;
};

#pragma clang attribute pop

static __always_inline u64 cgroup2_id_of(struct cgroup_subsys_state *css)
{
	struct cgroup *cgroup = BPF_CORE_READ(css, cgroup);

	if (!cgroup || BPF_CORE_READ(cgroup, root, hierarchy_id))
		return 0;
	return BPF_CORE_READ(cgroup, kn, id);
}

/* Of any task; of the current one bpf_get_current_cgroup_id() costs less. */
static __always_inline u64 cgroup2_id_of_task(void *task)
{
	struct task_struct___cgroups *of = task;

	if (!bpf_core_field_exists(of->cgroups))
		return 0;
	return BPF_CORE_READ(of, cgroups, dfl_cgrp, kn, id);
}

#endif
