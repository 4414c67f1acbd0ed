// SPDX-License-Identifier: BSD-2-Clause
/*
 * The calls collector: file-system calls per time bin, from the cells of calls.bpf.c into call.rec.
 *
 * A row is one kind of call on one kind of target in one bin: count, bytes, errors, total and longest time, and a
 * histogram of latencies.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "call_faults.h"
#include "call_table.h"
#include "call_triggers.h"
#include "common/records.h"
#include "recorder/bpf_attach.h"
#include "recorder/bpf_maps.h"
#include "recorder/features.h"
#include "recorder/followed.h"
#include "recorder/options.h"
#include "recorder/rec_file.h"
#include "recorder/registry.h"
#include "recorder/task_context.h"
#include "recorder/time_bins.h"

#include "calls.skel.h" /* uses the types of records.h */

static struct collector_state state;
static struct calls_bpf *skel;
static struct rec_file *file;
static struct call_cell *cells; /* mapped; index: CPU, slot, name, target */
static size_t cells_bytes;
static int cpus;
static struct bins bins;
static bool sees_uring; /* io_uring requests can be traced */

static void drain_bin(uint64_t bin);

static uint64_t calls_of(const void *record)
{
	return ((const struct call_record *)record)->count;
}

/*
 * The mount point of the file system under test, in the recorder's mount namespace; "" if its name has escaped bytes.
 */
static void find_target_path(uint32_t dev, char path[CALL_PATH])
{
	unsigned int major, minor;
	char *line = NULL, *mount;
	size_t room = 0, bytes;
	FILE *in = fopen("/proc/self/mountinfo", "re");

	path[0] = 0;
	while (in && !path[0] && getline(&line, &room, in) > 0) {
		mount = NULL;
		if (sscanf(line, "%*d %*d %u:%u %*s %ms", &major, &minor, &mount) != 3)
			mount = NULL;
		bytes = mount ? strlen(mount) : 0;
		/* "/" is no mark: every absolute path is below it. */
		if (bytes > 1 && bytes < CALL_PATH && !strchr(mount, '\\') &&
		    (major << 20 | minor) == dev)
			memcpy(path, mount, bytes + 1);
		free(mount);
	}
	free(line);
	if (in)
		fclose(in);
}

/*
 * Chooses the io_uring tracepoints whose arguments have the request. Those of Linux 5.10 have none, so a completion
 * could not be matched to its submission. Kernels without io_uring have no such tracepoints.
 */
static int choose_uring(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool req, sqe;

	if (!btf)
		return -1;
	req = !features_argument(btf, "io_uring_submit_req", "io_kiocb");
	sqe = !req && !features_argument(btf, "io_uring_submit_sqe", "io_kiocb");
	/* The request is its second argument, of no type. */
	sees_uring = (req || sqe) && features_pointer(btf, "io_uring_complete", 1);
	btf__free(btf);
	return bpf_program__set_autoload(skel->progs.uring_submit_req, sees_uring && req) ||
			       bpf_program__set_autoload(skel->progs.uring_submit_sqe,
							 sees_uring && sqe) ||
			       bpf_program__set_autoload(skel->progs.uring_complete, sees_uring)
		       ? -1
		       : 0;
}

static int configure(const struct options *options)
{
	size_t count = (size_t)cpus * CALL_BIN_SLOTS * CALL_NAMES * CALL_TARGETS;
	char path[CALL_PATH + 1] = "";
	struct stat pidns;

	if (stat("/proc/self/ns/pid", &pidns))
		return -errno;
	skel->rodata->bin_ns = options->bin_ns;
	skel->rodata->have_cgroup = bpf_has_workload(options);
	skel->rodata->by_process = followed_share(options, skel->maps.followed_processes);
	skel->rodata->have_task_storage = features_task_storage();
	skel->rodata->have_task_contexts = task_context_share(skel->maps.task_contexts);
	/* Processes may have begun before the recording. */
	skel->bss->maps_shared = options->cgroup_fd < 0 || options->follow_cgroup;
	if (choose_uring() || call_faults_choose(skel))
		return -1;
	if (bpf_map__set_autocreate(skel->rodata->have_task_storage
					    ? skel->maps.open_calls_by_thread
					    : skel->maps.open_calls,
				    false))
		return -1;
	skel->rodata->recorder_tgid = getpid();
	/* The kernel's dev_t has the minor number in the low 20 bits. */
	skel->rodata->recorder_pidns_dev = (uint64_t)major(pidns.st_dev) << 20 |
					   minor(pidns.st_dev);
	skel->rodata->recorder_pidns_ino = pidns.st_ino;
	skel->bss->target_dev = options->target_dev;
	if (options->target_path)
		snprintf(path, CALL_PATH, "%s", options->target_path);
	else if (options->target_dev)
		find_target_path(options->target_dev, path);
	skel->rodata->have_more_targets = options->more_target_count > 0;
	if (options->more_target_count > 0) {
		path[0] = 0; /* with several file systems, only the opened file's device decides */
		if (bpf_map__set_max_entries(skel->maps.more_targets, options->more_target_count))
			return -1;
	}
	skel->rodata->target_path_bytes = strlen(path);
	memcpy((void *)skel->rodata->target_path, path, strlen(path));
	memcpy((void *)skel->rodata->table, call_table, sizeof(call_table));
	cells_bytes = map_bytes(sizeof(struct call_cell), count);
	return bpf_map__set_max_entries(skel->maps.cells, count);
}

static int load(const struct options *options)
{
	cpus = bpf_possible_cpus(&state);
	if (cpus < 0 || bpf_check_btf(&state))
		return -1;
	skel = calls_bpf__open();
	if (!skel)
		return bpf_open_failed(&state);
	if (configure(options))
		return bpf_size_failed(&state);
	if (calls_bpf__load(skel))
		return bpf_load_failed(&state);
	if (bpf_set_workload(&state, options, skel->maps.workload_cgroup) ||
	    bpf_set_more_targets(&state, options, skel->maps.more_targets))
		return -1;
	cells = map_memory(skel->maps.cells, cells_bytes, PROT_READ | PROT_WRITE);
	if (!cells)
		return collector_off(&state, "free some memory", "the sums can't be mapped: %s",
				     strerror(errno));
	return 0;
}

static void close_all(void)
{
	call_faults_detach();
	bins_end(&bins);
	rec_file_close(file, &state);
	file = NULL;
	unmap_memory(cells, cells_bytes);
	cells = NULL;
	state.object = NULL;
	calls_bpf__destroy(skel);
	skel = NULL;
}

static int attach_programs(void)
{
	struct bpf_program *submit = bpf_program__autoload(skel->progs.uring_submit_req)
					     ? skel->progs.uring_submit_req
					     : skel->progs.uring_submit_sqe;

	/* Enter first: an exit without its enter is then a call that was under way at the start. */
	skel->links.sys_enter = bpf_program__attach(skel->progs.sys_enter);
	if (!skel->links.sys_enter)
		return -1;
	skel->links.sys_exit = bpf_program__attach(skel->progs.sys_exit);
	if (!skel->links.sys_exit)
		return -1;
	call_faults_attach(skel, cpus, &state);
	if (!sees_uring)
		return 0;
	/* Completions first: a request whose completion was missed would stay open for ever. */
	skel->links.uring_complete = bpf_program__attach(skel->progs.uring_complete);
	if (!skel->links.uring_complete)
		return -1;
	skel->links.uring_submit_req = bpf_program__attach(submit);
	return skel->links.uring_submit_req ? 0 : -1;
}

static int open_all(const struct options *options)
{
	if (load(options))
		return -1;
	file = rec_file_open(options, "call", bpf_object__btf(skel->obj), "call_record", NULL);
	if (!file)
		return collector_off(&state, "free some space", "call.rec can't be written: %s",
				     strerror(errno));
	rec_file_events(file, calls_of);
	bins = (struct bins){ .epochs = skel->bss->epochs,
			      .cuts = &skel->bss->cuts,
			      .drained_to = &skel->bss->drained_to,
			      .slots = CALL_BIN_SLOTS,
			      .cpus = cpus,
			      .drain_bin = drain_bin };
	bins_begin(&bins);
	return 0;
}

static int attach(void)
{
	if (attach_programs())
		return bpf_attach_failed(&state);
	state.object = skel->obj;
	return 0;
}

static struct call_cell *cell_at(int cpu, uint64_t bin, int name, int target)
{
	size_t index = (size_t)cpu * CALL_BIN_SLOTS + bin % CALL_BIN_SLOTS;

	return &cells[(index * CALL_NAMES + name) * CALL_TARGETS + target];
}

/* Writes the sum over CPUs as a row, and clears the cells for the next bin in this slot. */
static void drain_cell(uint64_t bin, int name, int target)
{
	static struct call_record row;

	memset(&row, 0, sizeof(row)); /* with the padding: it goes to the file */
	for (int cpu = 0; cpu < cpus; cpu++) {
		struct call_cell *cell = cell_at(cpu, bin, name, target);

		if (!cell->count)
			continue;
		row.count += cell->count;
		row.bytes += cell->bytes;
		row.over_bytes += cell->over_bytes;
		row.errors += cell->errors;
		row.total_ns += cell->total_ns;
		if (cell->max_ns > row.max_ns)
			row.max_ns = cell->max_ns;
		for (int i = 0; i < CALL_HIST; i++)
			row.hist[i] += cell->hist[i];
		memset(cell, 0, sizeof(*cell));
	}
	if (!row.count)
		return;
	row.bin_ns = bins_start_ns(bin);
	row.length_ns = bins_length_ns(bin);
	row.call = name;
	row.target = target;
	call_triggers_row(&row);
	if (rec_file_write(file, &state, &row, 1) == 1)
		state.recorded += row.count;
}

/* Returns the requests queued by io_uring and libaio; counts those without a row by reason. */
static uint64_t read_queued(const struct call_counts *sum)
{
	uint64_t aio = sum->aio_begun - sum->aio_refused;
	uint64_t uring_ended = sum->uring_counted + sum->uring_late + sum->uring_unseen +
			       sum->uring_full + sum->uring_not_a_file;
	uint64_t aio_ended = sum->aio_counted + sum->aio_late + sum->aio_unseen;

	reason_set(state.lost, "io_uring: completion not seen", sum->uring_unseen);
	reason_set(state.lost, "io_uring: no room for open requests", sum->uring_full);
	reason_set(state.lost, "aio: completion taken without a call", sum->aio_unseen);
	reason_set(state.lost, "aio: submission not noted", sum->aio_missed);
	reason_set(state.notes, "io_uring: open at the end", sum->uring_begun - uring_ended);
	reason_set(state.notes, "aio: open at the end", aio - aio_ended);
	reason_set(state.notes, "io_uring: open at the start", sum->uring_not_begun);
	reason_set(state.notes, "aio: open at the start, or of no file", sum->aio_not_begun);
	reason_set(state.notes, "io_uring: splice or command, bytes outside", sum->uring_others);
	reason_set(state.notes, "io_uring calls, bytes outside", sees_uring ? 0 : sum->io_uring);
	return sum->uring_begun - sum->uring_not_a_file + aio + sum->aio_missed;
}

static void read_counts(void)
{
	struct call_counts sum;
	uint64_t queued;

	if (!map_sum_cpus(skel->maps.counts, cpus, &sum, sizeof(sum)))
		return;
	queued = read_queued(&sum);
	state.seen = sum.entered - sum.dropped + sum.no_storage + queued + sum.faults_counted +
		     sum.faults_late;
	reason_set(state.lost, "recorder late",
		   sum.late + sum.uring_late + sum.aio_late + sum.faults_late);
	reason_set(state.notes, "major page faults of no file, or of one not seen",
		   sum.faults_unseen);
	reason_set(state.lost, "no task storage", sum.no_storage);
	reason_set(state.notes, "open at the start", sum.not_entered);
	reason_set(state.notes, "open at the end",
		   sum.entered - sum.counted - sum.dropped - sum.late);
	reason_set(state.notes, "on pipes, sockets, devices: left out",
		   sum.not_a_file + sum.dropped + sum.uring_not_a_file + sum.aio_not_a_file);
	reason_set(state.notes, "32-bit calls: left out", sum.compat);
	reason_set(state.notes, "interrupted and begun again", sum.restarted);
	reason_set(state.notes, "mmap calls, bytes outside", sum.mapped);
}

static void drain_bin(uint64_t bin)
{
	for (int name = 0; name < CALL_NAMES; name++)
		for (int target = 0; target < CALL_TARGETS; target++)
			drain_cell(bin, name, target);
}

static void drain(bool last)
{
	bins_drain(&bins, last);
	read_counts();
}

static void detach(void)
{
	call_faults_detach();
	calls_bpf__detach(skel);
	__atomic_store_n(&skel->bss->is_over, true, __ATOMIC_RELEASE);
}

static void retarget(uint32_t dev)
{
	skel->bss->target_dev = dev;
}

static const struct collector_ops calls_collector = {
	.name = "calls",
	.order = 40,
	.on_by_default = true,
	.open = open_all,
	.attach = attach,
	.drain = drain,
	.retarget = retarget,
	.detach = detach,
	.close = close_all,
	.state = &state,
};

REGISTER_COLLECTOR(calls_collector)
