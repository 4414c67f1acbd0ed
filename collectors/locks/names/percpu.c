// SPDX-License-Identifier: BSD-2-Clause
/*
 * Locks in per-CPU variables of the kernel.
 *
 * Each CPU has a copy of the section .data..percpu, whose variables BTF lists. The begin of a CPU's copy is the address
 * of its run queue (bpf/locks/percpu.bpf.c) minus the offset of the variable runqueues. Per-CPU variables of modules,
 * and per-CPU memory allocated at run time, are not in that section: locks in these get no name.
 */
#include "percpu.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <string.h>

#include "common/records.h"
#include "recorder/refusal.h"

#include "percpu.skel.h"

static uint64_t begins[BIN_CPUS]; /* addresses of the CPUs' copies; 0: not known */
static struct type section;
static uint32_t section_bytes;

static const struct btf_var_secinfo *variable_at(uint64_t offset)
{
	const struct btf_type *t = btf__type_by_id(section.btf, section.id);
	const struct btf_var_secinfo *all = btf_var_secinfos(t);

	for (int i = 0; i < btf_vlen(t); i++)
		if (offset >= all[i].offset && offset < (uint64_t)all[i].offset + all[i].size)
			return &all[i];
	return NULL;
}

static const char *name_of(const struct btf_var_secinfo *variable)
{
	return types_name((struct type){ section.btf, variable->type });
}

/* Finds the offset of runqueues in the section; false: not in BTF. */
static bool find_section(uint32_t *queues)
{
	const struct btf *btf = types_vmlinux();
	int id = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, id) : NULL;
	bool found = false;

	if (!t)
		return false;
	section = (struct type){ btf, id };
	for (int i = 0; i < btf_vlen(t); i++) {
		const struct btf_var_secinfo *one = &btf_var_secinfos(t)[i];

		if (one->offset + one->size > section_bytes)
			section_bytes = one->offset + one->size;
		if (!strcmp(name_of(one), "runqueues")) {
			*queues = one->offset;
			found = true;
		}
	}
	return found;
}

/* Offsets on the way from a task to its CPU's run queue; false: this kernel has no such members. */
static bool find_offsets(struct percpu_bpf *skel)
{
	struct type task, cfs, rq, se, unused;
	uint32_t se_at, cfs_rq_at, rq_at, cpu_at;

	if (types_find("task_struct", BTF_KIND_STRUCT, &task, 1) != 1 ||
	    types_find("cfs_rq", BTF_KIND_STRUCT, &cfs, 1) != 1 ||
	    types_find("rq", BTF_KIND_STRUCT, &rq, 1) != 1 ||
	    !types_member(task, "se", &se, &se_at) ||
	    !types_member(se, "cfs_rq", &unused, &cfs_rq_at) ||
	    !types_member(cfs, "rq", &unused, &rq_at) || !types_member(rq, "cpu", &unused, &cpu_at))
		return false;
	skel->rodata->cfs_rq_at = se_at + cfs_rq_at;
	skel->rodata->rq_at = rq_at;
	skel->rodata->cpu_at = cpu_at;
	return true;
}

void percpu_load(void)
{
	int cpus = libbpf_num_possible_cpus();
	struct percpu_bpf *skel;
	uint32_t queues = 0;

	if (!find_section(&queues))
		return;
	skel = percpu_bpf__open();
	if (!skel)
		return;
	if (!find_offsets(skel) || percpu_bpf__load(skel))
		cpus = 0;
	for (int cpu = 0; cpu < cpus && cpu < BIN_CPUS; cpu++) {
		LIBBPF_OPTS(bpf_test_run_opts, run, .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = cpu);

		/* An offline CPU does not run the program; no task waits for its locks. */
		if (bpf_prog_test_run_opts(bpf_program__fd(skel->progs.find_run_queue), &run) ==
			    0 &&
		    skel->bss->run_queues[cpu])
			begins[cpu] = skel->bss->run_queues[cpu] - queues;
	}
	percpu_bpf__destroy(skel);
	refusal_forget(); /* this program is not needed */
}

void percpu_unload(void)
{
	memset(begins, 0, sizeof(begins));
	section_bytes = 0;
}

bool percpu_lock(uint64_t lock, int kind, struct lock_member *found)
{
	for (int cpu = 0; cpu < BIN_CPUS; cpu++) {
		uint64_t offset = lock - begins[cpu];
		const struct btf_var_secinfo *variable;
		struct lock_member inside;
		struct type type;

		if (!begins[cpu] || lock < begins[cpu] || offset >= section_bytes)
			continue;
		variable = variable_at(offset);
		if (!variable)
			return false;
		type = (struct type){ section.btf,
				      btf__type_by_id(section.btf, variable->type)->type };
		offset -= variable->offset;
		if (member_lock_at(type, offset, kind, &inside)) {
			*found = inside;
			snprintf(found->name, sizeof(found->name), "%s.%s", name_of(variable),
				 inside.member);
			return true;
		}
		if (offset || !member_is_lock(type, kind))
			return false;
		/* The variable itself is the lock. */
		memset(found, 0, sizeof(*found));
		snprintf(found->name, sizeof(found->name), "%s", name_of(variable));
		return true;
	}
	return false;
}
