// SPDX-License-Identifier: BSD-2-Clause
/* What every source made of BPF programs asks of the machine, and says when it can't be had. */
#include "bpf_attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/records.h"
#include "refusal.h"

int programs_cpus(struct source_state *state)
{
	int cpus = libbpf_num_possible_cpus();

	if (cpus <= 0)
		return source_off(state, "mount sysfs on /sys", "the number of CPUs can't be read");
	if (cpus > BIN_CPUS)
		return source_off(state, "raise BIN_CPUS in bpf/common/bin_epoch.h",
				  "more than %d CPUs", BIN_CPUS);
	return cpus;
}

int programs_need_types(struct source_state *state)
{
	if (!access("/sys/kernel/btf/vmlinux", R_OK))
		return 0;
	return source_off(state, "use a kernel with CONFIG_DEBUG_INFO_BTF",
			  "/sys/kernel/btf/vmlinux can't be read: %s", strerror(errno));
}

int programs_not_opened(struct source_state *state)
{
	return source_off(state, "rebuild with make clean, then make build",
			  "the BPF object can't be opened: %s", strerror(errno));
}

int programs_not_sized(struct source_state *state)
{
	return source_off(state, "report this", "the maps can't be sized: %s", strerror(errno));
}

/* What was refused, and the kernel's reason; libbpf has said both. */
static int refused(struct source_state *state)
{
	const char *remedy = "record in a virtual machine (VM=1), and report this";

	if (errno == EPERM)
		remedy = "give root CAP_BPF and CAP_PERFMON, which it lacks in most containers";
	else if (getenv("SEEKMETER_GUEST"))
		remedy = "take another KERNEL=, and report this";
	if (!refusal_line()[0])
		return source_off(state, remedy, "the kernel refused the BPF programs: %s",
				  strerror(errno));
	return source_off(state, remedy, "the kernel refused %s", refusal_line());
}

int programs_not_loaded(struct source_state *state)
{
	return refused(state);
}

int programs_not_attached(struct source_state *state)
{
	return refused(state);
}

int programs_note_who_we_are(struct source_state *state, const struct bpf_program *program)
{
	LIBBPF_OPTS(bpf_test_run_opts, nothing);

	if (!bpf_prog_test_run_opts(bpf_program__fd(program), &nothing))
		return 0;
	return source_off(state, "report this", "who we are can't be noted: %s", strerror(errno));
}

int programs_watch_workload(struct source_state *state, const struct options *options,
			    const struct bpf_map *map)
{
	uint32_t zero = 0;

	if (options->cgroup_fd < 0 ||
	    !bpf_map_update_elem(bpf_map__fd(map), &zero, &options->cgroup_fd, BPF_ANY))
		return 0;
	return source_off(state, "use a cgroup2 directory",
			  "the workload's cgroup can't be watched: %s", strerror(errno));
}
