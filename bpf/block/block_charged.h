/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Memory cgroup that a page is charged to: that of the task that brought the page into memory. A kernel thread submits
 * writeback, so nothing else in the request identifies the task that wrote the data.
 *
 * The bio's block cgroup (bi_blkg) is no help: the kernel charges writeback to a block cgroup only where cgroup2 has
 * both the io and the memory controller (inode_cgwb_enabled()), and then whole inodes to their main writer.
 */
#ifndef SEEKMETER_BLOCK_CHARGED_H
#define SEEKMETER_BLOCK_CHARGED_H

#include "block_class.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* linux/cgroup-defs.h, linux/kernfs.h */
struct kernfs_node {
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct cgroup_subsys {
	int id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys *ss;
};

/* linux/memcontrol.h */
struct mem_cgroup {
	struct cgroup_subsys_state css;
};

struct obj_cgroup {
	struct mem_cgroup *memcg;
};

/* linux/mm_types.h */
struct page___charged {
	unsigned long memcg_data; /* a pointer with flags in the low bits */
	/*
	 * before Linux kernel commit bcfe06bf2622 ("mm: memcontrol: Use helpers to read page's memcg data") (in v5.11)
	 */
	struct mem_cgroup *mem_cgroup;
};

struct folio {
	unsigned long memcg_data;
};

#pragma clang attribute pop

/* linux/cgroup-defs.h; the numbers depend on what is configured */
enum cgroup_subsys_id {
	memory_cgrp_id = 1,
};

#define MEMCG_DATA_FLAGS 7UL

/* Inode number of the memory cgroup's directory; 0: *memcg is no memory cgroup. */
static __always_inline u64 memory_cgroup_number(struct mem_cgroup *memcg)
{
	int id = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);

	if (BPF_CORE_READ(memcg, css.ss, id) != id)
		return 0;
	return BPF_CORE_READ(memcg, css.cgroup, kn, id);
}

static __always_inline enum block_charged charged_to(struct page *page, enum program program)
{
	struct page___charged *head = (void *)head_of(page, program);
	struct mem_cgroup *memcg = NULL;
	u64 data = 0, number;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		return BLOCK_CHARGED_UNKNOWN;
	if (!head)
		head = (void *)address_of(page, program);
	if (bpf_core_field_exists(head->memcg_data))
		data = BPF_CORE_READ(head, memcg_data);
	else if (bpf_core_field_exists(struct folio, memcg_data))
		data = BPF_CORE_READ((struct folio *)head, memcg_data);
	else if (bpf_core_field_exists(head->mem_cgroup))
		data = (u64)BPF_CORE_READ(head, mem_cgroup);
	memcg = (void *)(data & ~MEMCG_DATA_FLAGS);
	if (!memcg)
		return BLOCK_CHARGED_UNKNOWN;
	number = memory_cgroup_number(memcg);
	/* It may be an object cgroup, which points to its present memory cgroup. */
	if (!number && bpf_core_field_exists(struct obj_cgroup, memcg))
		number = memory_cgroup_number(BPF_CORE_READ((struct obj_cgroup *)memcg, memcg));
	if (!number)
		return BLOCK_CHARGED_UNKNOWN;
	return number == memory_cgroup_id ? BLOCK_CHARGED_WORKLOAD : BLOCK_CHARGED_OTHER;
}

#endif
