// SPDX-License-Identifier: BSD-2-Clause
/* Steps that all collectors with BPF programs share; see bpf_attach.h. */
#include "bpf_attach.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/records.h"
#include "followed.h"
#include "options.h"
#include "refusal.h"

int bpf_possible_cpus(struct collector_state *state)
{
	int cpus = libbpf_num_possible_cpus();

	if (cpus <= 0)
		return collector_off(state, "mount sysfs on /sys",
				     "the number of CPUs can't be read");
	if (cpus > BIN_CPUS)
		return collector_off(state, "raise BIN_CPUS in bpf/common/bin_epoch.h",
				     "more than %d CPUs", BIN_CPUS);
	return cpus;
}

int bpf_check_btf(struct collector_state *state)
{
	if (!access("/sys/kernel/btf/vmlinux", R_OK))
		return 0;
	return collector_off(state, "use a kernel with CONFIG_DEBUG_INFO_BTF",
			     "/sys/kernel/btf/vmlinux can't be read: %s", strerror(errno));
}

struct btf *bpf_load_kernel_btf(struct collector_state *state)
{
	struct btf *btf = btf__load_vmlinux_btf();

	if (!btf)
		collector_off(state, "use a kernel with CONFIG_DEBUG_INFO_BTF",
			      "the kernel's type information can't be read: %s", strerror(errno));
	return btf;
}

int bpf_open_failed(struct collector_state *state)
{
	return collector_off(state, "build the recorder again",
			     "the BPF object can't be opened: %s", strerror(errno));
}

int bpf_size_failed(struct collector_state *state)
{
	return collector_off(state, "report this", "the maps can't be sized: %s", strerror(errno));
}

/* The program or map that was refused, and the kernel's reason, are in libbpf's warnings (refusal.c). */
static int refused(struct collector_state *state)
{
	const char *remedy = "record in a virtual machine (VM=1), and report this";

	if (errno == EPERM)
		remedy = "give root CAP_BPF and CAP_PERFMON, which it lacks in most containers";
	else if (getenv("SEEKMETER_GUEST"))
		remedy = "take another KERNEL=, and report this";
	if (!refusal_line()[0])
		return collector_off(state, remedy, "the kernel refused the BPF programs: %s",
				     strerror(errno));
	return collector_off(state, remedy, "the kernel refused %s", refusal_line());
}

int bpf_load_failed(struct collector_state *state)
{
	return refused(state);
}

int bpf_attach_failed(struct collector_state *state)
{
	return refused(state);
}

int bpf_note_recorder(struct collector_state *state, const struct bpf_program *program)
{
	LIBBPF_OPTS(bpf_test_run_opts, nothing);

	if (!bpf_prog_test_run_opts(bpf_program__fd(program), &nothing))
		return 0;
	return collector_off(state, "report this", "who we are can't be noted: %s",
			     strerror(errno));
}

bool bpf_has_workload(const struct options *options)
{
	return options->cgroup_fd >= 0 || options->follow_pid;
}

int bpf_set_workload(struct collector_state *state, const struct options *options,
		     const struct bpf_map *map)
{
	uint32_t zero = 0;

	if (options->cgroup_fd < 0)
		return 0;
	if (bpf_map_update_elem(bpf_map__fd(map), &zero, &options->cgroup_fd, BPF_ANY))
		return collector_off(state, "use a cgroup2 directory",
				     "the workload's cgroup can't be watched: %s", strerror(errno));
	followed_note_map(bpf_map__fd(map));
	return 0;
}

int bpf_set_more_targets(struct collector_state *state, const struct options *options,
			 const struct bpf_map *map)
{
	uint8_t is_one = 1;

	for (int i = 0; i < options->more_target_count; i++)
		if (bpf_map_update_elem(bpf_map__fd(map), &options->more_targets[i], &is_one,
					BPF_ANY))
			return collector_off(state, "free some memory",
					     "file systems can't be passed to the kernel: %s",
					     strerror(errno));
	return 0;
}
