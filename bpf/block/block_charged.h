/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whose write-back a request is. A kernel thread submits it, so the task tells nothing; two other facts may:
 *   - the bio's block cgroup (bi_blkg). The kernel charges write-back to one only where cgroup2 has both the io and
 *     the memory controller (inode_cgwb_enabled()), and then whole inodes to their main writer;
 *   - the memory cgroup that the page is charged to: that of the task that brought the page into memory.
 * Both name the nearest cgroup above the task that has the controller.
 */
#ifndef SEEKMETER_BLOCK_CHARGED_H
#define SEEKMETER_BLOCK_CHARGED_H

#include "block_class.h"
#include "common/cgroup_id.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* linux/memcontrol.h */
struct mem_cgroup {
	struct cgroup_subsys_state css;
};

/* linux/blk-cgroup.h, block/blk-cgroup.h; with CONFIG_BLK_CGROUP */
struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct bio___charged {
	struct blkcg_gq *bi_blkg;
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

/* The memory cgroup; NULL: *memcg is none. */
static __always_inline struct mem_cgroup *if_memory_cgroup(struct mem_cgroup *memcg)
{
	int id = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);

	return memcg && BPF_CORE_READ(memcg, css.ss, id) == id ? memcg : NULL;
}

/* The memory cgroup that a page is charged to; NULL: none, or this kernel has none. */
static __always_inline struct mem_cgroup *charged_to(struct page *page, enum program program)
{
	struct page___charged *head = (void *)head_of(page, program);
	struct mem_cgroup *memcg, *found;
	u64 data = 0;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
		return NULL;
	if (!head)
		head = (void *)address_of(page, program);
	if (bpf_core_field_exists(head->memcg_data))
		data = BPF_CORE_READ(head, memcg_data);
	else if (bpf_core_field_exists(struct folio, memcg_data))
		data = BPF_CORE_READ((struct folio *)head, memcg_data);
	else if (bpf_core_field_exists(head->mem_cgroup))
		data = (u64)BPF_CORE_READ(head, mem_cgroup);
	memcg = (void *)(data & ~MEMCG_DATA_FLAGS);
	found = if_memory_cgroup(memcg);
	/* It may be an object cgroup, which points to its present memory cgroup. */
	if (!found && memcg && bpf_core_field_exists(struct obj_cgroup, memcg))
		found = if_memory_cgroup(BPF_CORE_READ((struct obj_cgroup *)memcg, memcg));
	return found;
}

/* cgroup2 id of a bio's block cgroup; 0: none, or it is the root, which says nothing. */
static __always_inline u64 block_cgroup_of(struct bio *bio)
{
	struct blkcg_gq *blkg;
	u64 id;

	if (!bpf_core_field_exists(struct bio___charged, bi_blkg))
		return 0;
	blkg = BPF_CORE_READ((struct bio___charged *)bio, bi_blkg);
	if (!blkg)
		return 0;
	id = cgroup2_id_of(&BPF_CORE_READ(blkg, blkcg)->css);
	return id == CGROUP_ROOT_ID ? 0 : id;
}

static __always_inline bool is_kernels(enum block_submitter submitter)
{
	return submitter == BLOCK_SUBMITTER_KERNEL_THREAD ||
	       submitter == BLOCK_SUBMITTER_UPPER_DEVICE;
}

/*
 * Notes whose a kernel thread's bio is; *cgroup stays the thread's own where nothing tells. is_writeback: it writes data, whose
 * page tells who made it dirty.
 */
static __always_inline void note_owner(struct bio *bio, bool is_writeback, enum program program,
				       u64 *cgroup, enum block_cgroup_from *from,
				       enum block_charged *charged)
{
	u64 owner = block_cgroup_of(bio), id;
	struct mem_cgroup *memcg = NULL;

	if (owner) {
		*cgroup = owner;
		*from = BLOCK_CGROUP_FROM_BIO;
	}
	if (is_writeback && (memory_cgroup_id || !owner))
		memcg = charged_to(bio->bi_io_vec->bv_page, program);
	if (!memcg)
		return;
	if (memory_cgroup_id) {
		id = BPF_CORE_READ(memcg, css.cgroup, kn, id);
		*charged = id == memory_cgroup_id ? BLOCK_CHARGED_WORKLOAD : BLOCK_CHARGED_OTHER;
	}
	id = owner ? 0 : cgroup2_id_of(&memcg->css);
	if (id && id != CGROUP_ROOT_ID) {
		*cgroup = id;
		*from = BLOCK_CGROUP_FROM_PAGE;
	}
}

/* Does a record's page tell who made it dirty? */
#define IS_WRITEBACK(record)                                                      \
	((record)->op == BLOCK_OP_WRITE && (record)->class == BLOCK_CLASS_DATA && \
	 (record)->submitter == BLOCK_SUBMITTER_KERNEL_THREAD)

#endif
