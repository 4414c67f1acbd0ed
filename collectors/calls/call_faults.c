// SPDX-License-Identifier: BSD-2-Clause
/* Page faults on mapped files; see call_faults.h. */
#include "call_faults.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/records.h"
#include "recorder/collector.h"
#include "recorder/features.h"

#include "calls.skel.h" /* uses the types of records.h */

static struct bpf_link **links; /* by CPU */
static int link_count;
static bool sees_faults;

int call_faults_choose(struct calls_bpf *skel)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool of_file, added, by_user, folio, page;

	if (!btf)
		return -1;
	sees_faults = skel->rodata->have_task_storage;
	of_file = sees_faults && !features_argument(btf, "mm_filemap_fault", "address_space");
	added = sees_faults && !of_file &&
		(!features_argument(btf, "mm_filemap_add_to_page_cache", "folio") ||
		 !features_argument(btf, "mm_filemap_add_to_page_cache", "page"));
	by_user = sees_faults && features_pointer(btf, "page_fault_user", 1);
	folio = sees_faults && !features_argument(btf, "writeback_dirty_folio", "folio");
	page = sees_faults && !folio && !features_argument(btf, "writeback_dirty_page", "page");
	btf__free(btf);
	sees_faults = of_file || added;
	return bpf_program__set_autoload(skel->progs.filemap_fault, of_file) ||
			       bpf_program__set_autoload(skel->progs.page_added, added) ||
			       bpf_program__set_autoload(skel->progs.page_fault, by_user) ||
			       bpf_program__set_autoload(skel->progs.folio_dirtied, folio) ||
			       bpf_program__set_autoload(skel->progs.page_dirtied, page) ||
			       bpf_program__set_autoload(skel->progs.major_fault, sees_faults)
		       ? -1
		       : 0;
}

/* The event of one CPU's major faults. False: the kernel refuses it, or the CPU is offline. */
static bool attach_ends(struct calls_bpf *skel, int cpu)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_PAGE_FAULTS_MAJ,
					.sample_period = 1 };
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return false;
	links[cpu] = bpf_program__attach_perf_event(skel->progs.major_fault, fd);
	if (!links[cpu])
		close(fd);
	return links[cpu];
}

static bool attach_one(struct bpf_program *program, struct bpf_link **link)
{
	if (!bpf_program__autoload(program))
		return true;
	*link = bpf_program__attach(program);
	return *link;
}

void call_faults_attach(struct calls_bpf *skel, int cpus, struct collector_state *state)
{
	int attached = 0;

	if (!sees_faults) {
		reason_set(state->notes, "page faults on files: not shown by this kernel", 1);
		return;
	}
	links = calloc(cpus, sizeof(*links));
	link_count = links ? cpus : 0;
	for (int i = 0; i < link_count; i++)
		attached += attach_ends(skel, i);
	if (attached && attach_one(skel->progs.filemap_fault, &skel->links.filemap_fault) &&
	    attach_one(skel->progs.page_added, &skel->links.page_added) &&
	    attach_one(skel->progs.page_fault, &skel->links.page_fault) &&
	    attach_one(skel->progs.folio_dirtied, &skel->links.folio_dirtied) &&
	    attach_one(skel->progs.page_dirtied, &skel->links.page_dirtied))
		return;
	reason_set(state->notes, "page faults on files: refused by this kernel", 1);
}

void call_faults_detach(void)
{
	for (int i = 0; i < link_count; i++)
		bpf_link__destroy(links[i]);
	free(links);
	links = NULL;
	link_count = 0;
}
