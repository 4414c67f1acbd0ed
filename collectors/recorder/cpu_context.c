// SPDX-License-Identifier: BSD-2-Clause
/*
 * Where programs find what a CPU executes: see cpu_context.h.
 *
 * preempt_count is a variable of its own, or on x86 a member of pcpu_hot, from Linux kernel commit 64701838bf05
 * ("x86/percpu: Move preempt_count next to current_task") (in v6.2) to 46e8fff6d45f ("x86/preempt: Move preempt count to
 * percpu hot section") (in v6.15).
 */
#include "cpu_context.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "common/records.h"
#include "refusal.h"

#include "cpu_context.skel.h" /* uses the types of records.h */

#define SAMPLES	   8
#define PERIOD_NS  (100 * 1000)
#define LONGEST_NS (100 * NS_PER_MS)

/*
 * The count's bits for hard interrupts, and for NMIs above them. The second layout has other counts in the bits of the
 * first (seen in the source of 7.3), so it is looked for first. The highest bit is PREEMPT_NEED_RESCHED, inverted.
 */
static const struct {
	uint32_t hardirq, nmi;
} layouts[] = {
	{ 0x0f000000, 0x70000000 },
	{ 0x000f0000, 0x00f00000 },
};

bool cpu_variable_at(const struct btf *btf, const char *name, uint32_t *at, uint32_t *bytes,
		     uint32_t *type)
{
	int id = btf__find_by_name_kind(btf, ".data..percpu", BTF_KIND_DATASEC);
	int variable = btf__find_by_name_kind(btf, name, BTF_KIND_VAR);
	const struct btf_type *section = id > 0 ? btf__type_by_id(btf, id) : NULL;

	for (int i = 0; section && i < btf_vlen(section); i++) {
		const struct btf_var_secinfo *one = &btf_var_secinfos(section)[i];

		if ((int)one->type != variable)
			continue;
		*at = one->offset;
		if (bytes)
			*bytes = one->size;
		if (type)
			*type = btf__type_by_id(btf, variable)->type;
		return true;
	}
	return false;
}

/* The offset of pcpu_hot's member preempt_count in pcpu_hot; CPU_NOWHERE: there is none. */
static uint32_t count_in_hot(const struct btf *btf, uint32_t type)
{
	const struct btf_type *hot = btf__type_by_id(btf, type);

	for (int i = 0; hot && btf_is_composite(hot) && i < btf_vlen(hot); i++) {
		const struct btf_member *member = &btf_members(hot)[i];
		const char *name = btf__name_by_offset(btf, member->name_off);
		uint32_t inner;

		if (!strcmp(name, "preempt_count"))
			return member->offset / 8;
		/* The members are in a struct without a name, in a union without a name. */
		inner = *name ? CPU_NOWHERE : count_in_hot(btf, member->type);
		if (inner != CPU_NOWHERE)
			return inner + member->offset / 8;
	}
	return CPU_NOWHERE;
}

static void find_offsets(struct cpu_places *places)
{
	struct btf *btf = btf__load_vmlinux_btf();
	uint32_t hot_at, hot;

	if (btf && cpu_variable_at(btf, "runqueues", &places->runqueues_at, NULL, NULL) &&
	    !cpu_variable_at(btf, "__preempt_count", &places->preempt_count_at, NULL, NULL) &&
	    cpu_variable_at(btf, "pcpu_hot", &hot_at, NULL, &hot) &&
	    count_in_hot(btf, hot) != CPU_NOWHERE)
		places->preempt_count_at = hot_at + count_in_hot(btf, hot);
	btf__free(btf);
}

/* A timer that interrupts this process while it runs; -1: it can't be had. */
static int open_timer(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_CPU_CLOCK,
					.sample_period = PERIOD_NS };

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void find_bits(struct cpu_places *places)
{
	struct cpu_context_bpf *skel = cpu_context_bpf__open();
	struct bpf_link *link = NULL;
	int timer = open_timer();
	uint64_t end_ns;

	if (skel)
		memcpy((void *)&skel->rodata->cpu_places, places, sizeof(*places));
	if (skel && timer >= 0 && !cpu_context_bpf__load(skel))
		link = bpf_program__attach_perf_event(skel->progs.sample, timer);
	end_ns = monotonic_ns() + LONGEST_NS;
	while (link && *(volatile uint64_t *)&skel->bss->samples < SAMPLES &&
	       monotonic_ns() < end_ns)
		;
	if (link && skel->bss->samples) {
		for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
			if (!(skel->data->bits_always_set & layouts[i].hardirq))
				continue;
			places->hardirq_bits = layouts[i].hardirq;
			places->nmi_bits = layouts[i].nmi;
			break;
		}
	}
	if (!bpf_link__destroy(link) && !link && timer >= 0)
		close(timer); /* the link closes it otherwise */
	cpu_context_bpf__destroy(skel);
	refusal_forget(); /* programs work without contexts */
}

struct cpu_places cpu_context_places(void)
{
	static struct cpu_places places = { .runqueues_at = CPU_NOWHERE,
					    .preempt_count_at = CPU_NOWHERE };
	static bool looked;

	if (!looked) {
		looked = true;
		find_offsets(&places);
		find_bits(&places);
	}
	return places;
}
