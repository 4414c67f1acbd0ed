// SPDX-License-Identifier: BSD-2-Clause
/*
 * The holds source: empties the sums of holds.bpf.c, bin by bin, into hold.rec and names the locks.
 *
 * It costs every taking and every release of a mutex, rwsem or semaphore, so it is on only where asked for. Which
 * functions can be traced is tried one by one; what can't be is left out and said in the notes.
 */
#include "recorder/recorder.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recorder/time_bins.h"
#include "recorder/features.h"
#include "locks/lock_ids.h"
#include "locks/names/lock_names.h"
#include "recorder/bpf_attach.h"
#include "common/records.h"

#include "holds.skel.h" /* uses the types of records.h */

#define BATCH 512
#define SUMS_ENTRIES \
	16384 /* locks taken in one bin; each about 100 bytes in each of HOLD_BIN_SLOTS */
#define SLOTS HOLD_BIN_SLOTS

static struct source_state state;
static struct holds_bpf *skel;
static struct rec_file *file;
static struct bins bins;
static bool names_open;
static int cpus, traced;
static int sum_fds[SLOTS];
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

/* Entries of a bin's map; SEEKMETER_HOLD_ENTRIES=N is for machines short of memory, and the test of a full map. */
static uint32_t sums_entries(void)
{
	const char *asked = getenv("SEEKMETER_HOLD_ENTRIES");
	unsigned long entries = asked ? strtoul(asked, NULL, 10) : 0;

	return entries && entries <= 1 << 20 ? entries : SUMS_ENTRIES;
}

/* The kernel's function that a program is for: "fexit/mutex_lock". */
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

/* Does the kernel let a program that does nothing be loaded for this function? 0, or -errno. */
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
	const char *remedy = "VM=1 takes a kernel that has it (make doctor VM=1)";

	memset(state.notes, 0, sizeof(state.notes)); /* one reason for all of them */
	if (getenv("SEEKMETER_GUEST"))
		remedy = "another KERNEL=, with CONFIG_FUNCTION_TRACER and BPF trampolines";
	return source_off(&state, remedy,
			  "the kernel lets no BPF program trace its functions (fentry): %s",
			  strerror(err));
}

/* Only programs for functions that can be traced will be loaded. */
static int choose_functions(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	struct bpf_program *program;
	int err = 0, one;

	if (!btf)
		return source_off(&state, "use a kernel with CONFIG_DEBUG_INFO_BTF",
				  "the kernel's type information can't be read: %s",
				  strerror(errno));
	if (btf__find_by_name_kind(btf, "mutex_lock_nested", BTF_KIND_FUNC) > 0) {
		btf__free(btf);
		return source_off(
			&state,
			access("/proc/lock_stat", F_OK)
				? "use a kernel without CONFIG_DEBUG_LOCK_ALLOC"
				: "use a kernel without it; this one's own count is /proc/lock_stat",
			"CONFIG_DEBUG_LOCK_ALLOC: locks are taken by other functions than usual");
	}
	traced = 0;
	bpf_object__for_each_program(program, skel->obj) {
		one = try_function(btf, program);
		if (!one) {
			traced++;
			continue;
		}
		if (one != -ENOENT)
			err = -one;
		leave_out(program);
		bpf_program__set_autoload(program, false);
	}
	skel->rodata->object_lookups = lock_names_lookups();
	btf__free(btf);
	if (traced && !features_task_storage())
		return source_off(&state, "use Linux 5.12 or newer",
				  "the kernel's BPF programs can keep no data with a task");
	return traced ? 0 : refused(err ? err : ENOENT);
}

static int load(const struct options *options)
{
	cpus = programs_cpus(&state);
	if (cpus < 0 || programs_need_types(&state))
		return -1;
	skel = holds_bpf__open();
	if (!skel)
		return programs_not_opened(&state);
	if (choose_functions())
		return -1;
	skel->rodata->bin_ns = options->bin_ns;
	skel->rodata->have_cgroup = options->cgroup_fd >= 0;
	struct bpf_map *const slots[SLOTS] = {
		skel->maps.sums0, skel->maps.sums1, skel->maps.sums2,
		skel->maps.sums3, skel->maps.sums4, skel->maps.sums5
	};
	for (int i = 0; i < SLOTS; i++)
		if (bpf_map__set_max_entries(slots[i], sums_entries()))
			return programs_not_sized(&state);
	if (lock_names_share(skel->obj))
		return source_off(&state, "report this", "the map of objects can't be shared: %s",
				  strerror(errno));
	if (holds_bpf__load(skel))
		return programs_not_loaded(&state);
	for (int i = 0; i < SLOTS; i++)
		sum_fds[i] = bpf_map__fd(slots[i]);
	return programs_watch_workload(&state, options, skel->maps.workload_cgroup);
}

static void stop(void)
{
	bins_end(&bins);
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
	return traced ? 0 : refused(err);
}

static int start(const struct options *options)
{
	uint64_t unused;

	if (load(options))
		goto fail;
	file = rec_file_open(options, "hold", bpf_object__btf(skel->obj), "hold_record", NULL);
	if (file)
		rec_file_events(file, events_of);
	names_open = file && !lock_names_open(options, skel->obj);
	if (!names_open) {
		source_off(&state, "free some space", "hold.rec or lock.jsonl can't be written: %s",
			   strerror(errno));
		goto fail;
	}
	/* Reads kallsyms now rather than while events come in. */
	(void)stacks_symbol(0, &unused);
	if (attach())
		goto fail;
	state.object = skel->obj;
	state.on = true;
	return 0;
fail:
	stop();
	return -1;
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
	if (!bins_take(sum_fds[bin % SLOTS], bin, keys, sums, BATCH, take_sums))
		reason_add(state.notes, "a bin's sums could not be read", 1);
}

static void read_counts(void)
{
	struct hold_counts sum;
	uint64_t ended;

	if (!counts_sum(bpf_map__fd(skel->maps.counts), cpus, &sum, sizeof(sum)))
		return;
	ended = sum.released - sum.not_taken - sum.other_task;
	/* What is seen, and recorded, is a taking, a trylock that failed, or the end of a hold. */
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

/* So that nobody's attaching is in it. */
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

const struct source holds_source = {
	.name = "holds",
	.start = start,
	.begin = begin,
	.drain = drain,
	.detach = detach,
	.stop = stop,
	.state = &state,
};
