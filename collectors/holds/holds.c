// SPDX-License-Identifier: BSD-2-Clause
/*
 * The holds collector: acquisitions and hold times per lock and time bin, from the sums of holds.bpf.c into hold.rec.
 *
 * It costs time at every acquisition and release of a mutex, rwsem or semaphore, so it is off by default. Each function of
 * the kernel is tried; those that can't be traced are left out, and the notes name them.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/records.h"
#include "locks/lock_ids.h"
#include "locks/names/lock_names.h"
#include "recorder/bpf_attach.h"
#include "recorder/bpf_maps.h"
#include "recorder/features.h"
#include "recorder/followed.h"
#include "recorder/ksyms.h"
#include "recorder/options.h"
#include "recorder/rec_file.h"
#include "recorder/registry.h"
#include "recorder/time_bins.h"

#include "holds.skel.h" /* uses the types of records.h */

#define BATCH	     512
/* Locks taken in one bin; each costs about 100 bytes in each of HOLD_BIN_SLOTS. */
#define SUMS_ENTRIES 16384
#define SLOTS	     HOLD_BIN_SLOTS

static struct collector_state state;
static struct holds_bpf *skel;
static struct rec_file *file;
static struct bins bins;
static bool names_open;
static int cpus, traced;
static int bin_fds[SLOTS]; /* maps */
static struct hold_key keys[BATCH];
static struct hold_sum sums[BATCH];
static struct hold_record records[BATCH];
static char notes[MAX_REASONS][64]; /* "not traced: …" */
static int noted;

static void drain_bin(uint64_t bin);

static uint64_t events_of(const void *record)
{
	const struct hold_record *row = record;

	return row->acquired + row->try_failed + row->holds;
}

/* The kernel function of a program, from its section name: "fexit/mutex_lock". */
static const char *function_of(const struct bpf_program *program)
{
	return strchr(bpf_program__section_name(program), '/') + 1;
}

static void leave_out(const struct bpf_program *program)
{
	if (noted == MAX_REASONS)
		return;
	snprintf(notes[noted], sizeof(notes[noted]), "not traced: %s", function_of(program));
	reason_set(state.notes, notes[noted++], 1);
}

/* Tries to load an empty program for this function. 0, or -errno. */
static int try_function(const struct btf *btf, const struct bpf_program *program)
{
	const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts);
	int fd, id = btf__find_by_name_kind(btf, function_of(program), BTF_KIND_FUNC);

	if (id <= 0)
		return -ENOENT;
	opts.expected_attach_type = bpf_program__expected_attach_type(program);
	opts.attach_btf_id = id;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "try", "Dual BSD/GPL", nothing, 2, &opts);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int refused(int err)
{
	const char *remedy = "VM=1 takes a kernel that has it";

	memset(state.notes, 0, sizeof(state.notes)); /* one off_reason for all functions */
	if (getenv("SEEKMETER_GUEST"))
		remedy = "another KERNEL=, with CONFIG_FUNCTION_TRACER and BPF trampolines";
	return collector_off(&state, remedy,
			     "the kernel lets no BPF program trace its functions (fentry): %s",
			     strerror(err));
}

/* Leaves out the programs whose functions can't be traced. */
static int choose_functions(void)
{
	struct btf *btf = bpf_load_kernel_btf(&state);
	struct bpf_program *program;
	int err = 0, tried;

	if (!btf)
		return -1;
	if (btf__find_by_name_kind(btf, "mutex_lock_nested", BTF_KIND_FUNC) > 0) {
		btf__free(btf);
		return collector_off(
			&state,
			access("/proc/lock_stat", F_OK)
				? "use a kernel without CONFIG_DEBUG_LOCK_ALLOC"
				: "use a kernel without it; this one's own count is /proc/lock_stat",
			"CONFIG_DEBUG_LOCK_ALLOC: locks are taken by other functions than usual");
	}
	traced = 0;
	bpf_object__for_each_program(program, skel->obj) {
		tried = try_function(btf, program);
		if (!tried) {
			traced++;
			continue;
		}
		if (tried != -ENOENT)
			err = -tried;
		leave_out(program);
		bpf_program__set_autoload(program, false);
	}
	skel->rodata->object_lookups = lock_names_lookups();
	btf__free(btf);
	if (traced && !features_task_storage())
		return collector_off(&state, "use Linux 5.12 or newer",
				     "the kernel's BPF programs can keep no data with a task");
	return traced ? 0 : refused(err ? err : ENOENT);
}

static int load(const struct options *options)
{
	struct slot_shape shape = { BPF_MAP_TYPE_HASH, sizeof(struct hold_key),
				    sizeof(struct hold_sum), 0 };

	cpus = bpf_possible_cpus(&state);
	if (cpus < 0 || bpf_check_btf(&state))
		return -1;
	skel = holds_bpf__open();
	if (!skel)
		return bpf_open_failed(&state);
	if (choose_functions())
		return -1;
	shape.entries = map_entries("SEEKMETER_HOLD_ENTRIES", SUMS_ENTRIES);
	skel->rodata->bin_ns = options->bin_ns;
	skel->rodata->have_cgroup = bpf_has_workload(options);
	skel->rodata->by_process = followed_share(options, skel->maps.followed_processes);
	if (lock_names_share(skel->obj))
		return collector_off(&state, "report this",
				     "the map of objects can't be shared: %s", strerror(errno));
	if (holds_bpf__load(skel))
		return bpf_load_failed(&state);
	if (map_create_slots(skel->maps.bins, &shape, bin_fds))
		return collector_off(&state, "free some memory",
				     "the maps of time bins can't be made: %s", strerror(errno));
	return bpf_set_workload(&state, options, skel->maps.workload_cgroup);
}

static void close_all(void)
{
	bins_end(&bins);
	map_close_slots(bin_fds, SLOTS);
	rec_file_close(file, &state);
	file = NULL;
	if (names_open)
		lock_names_close();
	names_open = false;
	state.object = NULL;
	holds_bpf__destroy(skel);
	skel = NULL;
}

/* One by one: some functions can be traced and others not. */
static int attach(void)
{
	struct bpf_program *program;
	int err = 0;

	for (int i = 0; i < skel->skeleton->prog_cnt; i++) {
		program = *skel->skeleton->progs[i].prog;
		if (bpf_program__fd(program) < 0)
			continue;
		*skel->skeleton->progs[i].link = bpf_program__attach(program);
		if (*skel->skeleton->progs[i].link)
			continue;
		err = errno;
		leave_out(program);
		traced--;
	}
	if (!traced)
		return refused(err);
	state.object = skel->obj;
	return 0;
}

static int open_all(const struct options *options)
{
	if (load(options))
		return -1;
	file = rec_file_open(options, "hold", bpf_object__btf(skel->obj), "hold_record", NULL);
	if (file)
		rec_file_events(file, events_of);
	names_open = file && !lock_names_open(options, skel->obj);
	if (!names_open)
		return collector_off(&state, "free some space",
				     "hold.rec or lock.jsonl can't be written: %s",
				     strerror(errno));
	/* Now rather than while events come in: it takes 0.1 s. */
	(void)ksyms_load();
	return 0;
}

static struct hold_record row_of(uint64_t bin, const struct hold_key *key,
				 const struct hold_sum *sum)
{
	struct hold_record row;

	memset(&row, 0, sizeof(row)); /* with the padding: it goes to the file */
	row.bin_ns = bins_start_ns(bin);
	row.length_ns = bins_length_ns(bin);
	row.lock_id = lock_id(key->lock);
	row.kind = key->kind;
	row.mode = key->mode;
	row.in_workload = key->in_workload;
	row.acquired = sum->acquired;
	row.try_failed = sum->try_failed;
	row.holds = sum->holds;
	row.hold_ns = sum->hold_ns;
	row.max_hold_ns = sum->max_hold_ns;
	return row;
}

static void take_sums(uint64_t bin, uint32_t count)
{
	size_t kept = 0, whole;

	for (uint32_t i = 0; i < count; i++) {
		records[kept] = row_of(bin, &keys[i], &sums[i]);
		if (!records[kept].lock_id) {
			reason_add(state.lost, "too many locks", events_of(&records[kept]));
			continue;
		}
		kept++;
		if (!lock_names_note(keys[i].lock, keys[i].kind, NULL))
			reason_add(state.notes, "lock not written", 1);
	}
	whole = rec_file_write(file, &state, records, kept);
	for (size_t i = 0; i < whole; i++)
		state.recorded += events_of(&records[i]);
}

static void drain_bin(uint64_t bin)
{
	if (!bins_take(bin_fds[bin % SLOTS], bin, keys, sums, BATCH, take_sums))
		reason_add(state.notes, "a bin's sums could not be read", 1);
}

static void read_counts(void)
{
	struct hold_counts sum;
	uint64_t ended;

	if (!map_sum_cpus(skel->maps.counts, cpus, &sum, sizeof(sum)))
		return;
	ended = sum.released - sum.not_taken - sum.other_task;
	/* Events are acquisitions, failed trylocks, and ends of holds. */
	state.seen =
		sum.taken + sum.try_failed + ended + sum.too_deep + sum.no_storage + sum.end_missed;
	reason_set(state.lost, "map full", sum.map_full);
	reason_set(state.lost, "map busy", sum.map_busy);
	reason_set(state.lost, "recorder late", sum.late);
	reason_set(state.lost, "holds nested too deep", sum.too_deep);
	reason_set(state.lost, "no task storage", sum.no_storage);
	reason_set(state.lost, "end of a hold not seen", sum.end_missed);
	reason_set(state.notes, "taken", sum.taken);
	reason_set(state.notes, "trylocks that failed", sum.try_failed);
	reason_set(state.notes, "held at the start (or taking not seen)", sum.not_taken);
	reason_set(state.notes, "released by another task", sum.other_task);
	reason_set(state.notes, "held at the end",
		   sum.taken - sum.too_deep - sum.no_storage - sum.end_missed - ended);
}

/* Holds taken while other collectors were being attached are left out. */
static void begin(void)
{
	bins = (struct bins){ .epochs = skel->bss->epochs,
			      .cuts = &skel->bss->cuts,
			      .drained_to = &skel->bss->drained_to,
			      .slots = SLOTS,
			      .cpus = cpus,
			      .drain_bin = drain_bin };
	bins_begin(&bins);
	__atomic_store_n(&skel->bss->recording, true, __ATOMIC_RELEASE);
}

static void drain(bool last)
{
	bins_drain(&bins, last);
	read_counts();
}

static void detach(void)
{
	__atomic_store_n(&skel->bss->recording, false, __ATOMIC_RELEASE);
	holds_bpf__detach(skel);
}

static const struct collector_ops holds_collector = {
	.name = "holds",
	/* Attach holds first: it is slowest, and buffers of collectors attached before it would fill. */
	.order = 10,
	.open = open_all,
	.attach = attach,
	.begin = begin,
	.drain = drain,
	.detach = detach,
	.close = close_all,
	.state = &state,
};

REGISTER_COLLECTOR(holds_collector)
