// SPDX-License-Identifier: BSD-2-Clause
/*
 * The block collector: one row per request, from the completion rings of block.bpf.c into block.rec; and one row per bio to
 * a volume, a device above disks, into volume.rec.
 *
 * A request's row has the times of queue (Q), insert, issue (D) and completion (C), its sectors, flags and class, who
 * submitted it, and which bio of a volume it serves.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/major.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>

#include "block_triggers.h"
#include "common/records.h"
#include "dev_table.h"
#include "recorder/bpf_attach.h"
#include "recorder/bpf_maps.h"
#include "recorder/clock.h"
#include "recorder/completion.h"
#include "recorder/cpu_context.h"
#include "recorder/disks.h"
#include "recorder/features.h"
#include "recorder/followed.h"
#include "recorder/functions.h"
#include "recorder/ksyms.h"
#include "recorder/options.h"
#include "recorder/rec_file.h"
#include "recorder/registry.h"
#include "recorder/rings.h"
#include "recorder/second.h"
#include "recorder/task_context.h"
#include "status.h"

#include "block.skel.h" /* uses the types of records.h */

/*
 * No skip counts as lost by itself: a skipped issue shows as a completion without an issue, a skipped completion at the
 * tag's next issue. Most skips concern the disk below a loop device: the programs see every disk's requests.
 */
static struct collector_state state = { .begins = "" };
static struct block_bpf *skel;
static struct rec_file *file, *volume_file;
static struct rings rings, volume_rings;
static struct block_inflight *inflight;
static struct volume_set *volume_bios;
static struct block_counts *counts;
static size_t inflight_bytes, counts_bytes;
static uint64_t ended_unseen, volumes_ended_unseen;
static const struct disk *disks;
static int disk_count;
static bool have_volumes, in_ring;
static int cpus;

static bool take_request(void *record)
{
	struct block_record *request = record;

	request->error = errno_of_status(request->error);
	request->work_id = functions_note_low(request->work_id);
	request->end_io_id = functions_note_low(request->end_io_id);
	second_add_request(request);
	block_triggers_row(request);
	return true;
}

static bool take_volume(void *record)
{
	struct volume_record *bio = record;

	bio->error = errno_of_status(bio->error);
	bio->work_id = functions_note_low(bio->work_id);
	bio->end_io_id = functions_note_low(bio->end_io_id);
	block_triggers_bio(bio);
	return true;
}

/* Tells the programs the end functions that stand before those which tell a bio's kind. */
static void set_end_functions(void)
{
	struct end_functions *ends = &skel->bss->end_functions;

	ends->chain = ksyms_address("bio_chain_endio");
	ends->buffer = ksyms_address("end_bio_bh_io_sync");
	ends->btrfs_simple = ksyms_address("btrfs_simple_end_io");
	ends->btrfs_original = ksyms_address("btrfs_orig_write_end_io");
	ends->btrfs_clone = ksyms_address("btrfs_clone_write_end_io");
	ends->direct = ksyms_address("iomap_dio_bio_end_io");
}

/* A module's functions are listed once it is loaded, which may be by the mount: after the first bio of a new kind. */
static void set_late_end_functions(void)
{
	static uint32_t looked_at;

	if (!state.on || skel->bss->end_functions.btrfs_simple || functions_count() == looked_at)
		return;
	looked_at = functions_count();
	set_end_functions();
}

/* The entry of a device number among `count` entries; a new one if it has none. */
static struct dev_entry *entry_of(struct dev_entry *entries, size_t *count, uint32_t dev)
{
	for (size_t i = 0; i < *count; i++)
		if (entries[i].dev == dev)
			return &entries[i];
	entries[*count] = (struct dev_entry){ .dev = dev, .index = NO_DEV, .parent = NO_DEV };
	return &entries[(*count)++];
}

/* Tells the programs which device numbers are recorded, and what each of them is. */
static int set_devices(const struct options *options)
{
	struct dev_entry entries[DEV_ENTRIES_MAX] = { 0 };
	_Static_assert(DEV_ENTRIES_MAX >= MAX_DEVS + MAX_COMPONENTS, "room for all entries");
	size_t count = 0;
	uint32_t slots = 0;

	for (int i = 0; i < options->disk_count; i++) {
		const struct disk *disk = &options->disks[i];
		uint32_t dev = disk->major << 20 | disk->minor;
		struct dev_entry *entry = entry_of(entries, &count, dev);

		entry->index = i;
		entry->flags |= disk->is_volume ? DEV_VOLUME : DEV_LEAF;
		skel->rodata->dev_number[i] = dev;
		skel->rodata->dev_base[i] = slots;
		skel->rodata->dev_tags[i] = disk->tags;
		skel->rodata->dev_fua[i] = disk->fua;
		skel->rodata->dev_has_parts[i] = disk->has_parts;
		skel->rodata->dev_has_parity[i] = disk->has_parity;
		skel->rodata->dev_shares_pages[i] = disk->shares_pages;
		skel->rodata->have_sharing |= disk->shares_pages;
		skel->rodata->have_parity |= disk->has_parity;
		skel->rodata->have_loops |= disk->major == LOOP_MAJOR;
		skel->rodata->dev_has_requests[i] = disk->is_volume && disk->tags;
		skel->rodata->dev_data_offset[i] = disk->data_offset_sectors;
		skel->rodata->dev_first_member[i] = disk->first_member;
		if (!disk->is_volume)
			slots += disk->hw_queues * disk->tags;
	}
	for (int i = 0; i < options->component_count; i++) {
		uint32_t dev = options->components[i];
		struct dev_entry *entry = entry_of(entries, &count, dev);
		int holder = disks_holder(options, dev);

		entry->flags |= DEV_COMPONENT;
		entry->parent = holder < 0 ? NO_DEV : holder;
	}
	skel->rodata->dev_multiplier =
		dev_table_fill((void *)skel->rodata->dev_table, entries, count);
	if (count && !skel->rodata->dev_multiplier)
		return -1;
	return bpf_map__set_max_entries(skel->maps.inflight, slots ? slots : 1);
}

/* Tells the programs the names of disks that have no device number. */
static int set_hidden(const struct options *options)
{
	uint32_t count = 0;

	for (int i = 0; i < options->disk_count; i++) {
		const struct disk *disk = &options->disks[i];
		struct hidden_disk hidden = { .dev = disk->major << 20 | disk->minor };

		if (!disk->is_hidden)
			continue;
		if (count == HIDDEN_MAX)
			return -1;
		memcpy(hidden.name, disk->name, sizeof(hidden.name));
		memcpy((void *)&skel->rodata->hidden_disks[count++], &hidden, sizeof(hidden));
	}
	/* As for volumes: a probe's verifier must check the code. */
	skel->rodata->hidden_count = options->probe ? HIDDEN_MAX : count;
	return 0;
}

/* Sizes the rings to the number of CPUs and the table of requests in flight to the disks' tags. */
static int configure(const struct options *options)
{
	/* A probe has no disk, but the verifier must check the code that handles volumes. */
	have_volumes = options->volume_count || options->probe;
	disks = options->disks;
	disk_count = options->disk_count;
	skel->rodata->have_volumes = have_volumes;
	skel->rodata->have_loops = options->probe;
	skel->rodata->have_sharing = skel->rodata->have_parity = options->probe;
	skel->rodata->have_cgroup = bpf_has_workload(options);
	skel->rodata->by_process = followed_share(options, skel->maps.followed_processes);
	skel->rodata->cpu_places = cpu_context_places();
	skel->rodata->have_task_contexts = task_context_share(skel->maps.task_contexts);
	/* A probe has none, but the verifier must check the code that uses it. */
	skel->rodata->memory_cgroup_id = options->probe ? 1 : options->memory_cgroup_id;
	set_end_functions();
	if (set_devices(options) || set_hidden(options) ||
	    completion_share(skel->maps.completions) ||
	    rings_size(&rings, skel->maps.rings, cpus * BLOCK_RINGS_PER_CPU,
		       sizeof(struct block_record)) ||
	    rings_size(&volume_rings, skel->maps.volume_rings,
		       have_volumes ? cpus * VOLUME_RINGS_PER_CPU : 1,
		       sizeof(struct volume_record)))
		return -1;
	rings.take = take_request;
	volume_rings.take = take_volume;
	skel->rodata->ring_mask = rings.mask;
	skel->rodata->volume_ring_mask = volume_rings.mask;
	inflight_bytes =
		map_bytes(sizeof(struct block_inflight), bpf_map__max_entries(skel->maps.inflight));
	counts_bytes = map_bytes(sizeof(struct block_counts), cpus);
	if (have_volumes && (bpf_map__set_max_entries(skel->maps.volume_bios, VOLUME_SETS) ||
			     bpf_map__set_max_entries(skel->maps.origins, ORIGIN_SETS) ||
			     bpf_map__set_max_entries(skel->maps.ranges, RANGE_SETS)))
		return -1;
	return bpf_map__set_max_entries(skel->maps.counts, cpus);
}

/*
 * Reads the numbers of operations from the kernel's BTF. The enum is req_opf before Linux kernel commit ff07a02e9e8e
 * ("treewide: Rename enum req_opf into enum req_op") (in v6.0). A kernel lacks some of the operations.
 */
static int read_operations(const struct btf *btf)
{
	static const struct {
		const char *name;
		enum block_op op;
	} known[] = {
		{ "REQ_OP_READ", BLOCK_OP_READ },
		{ "REQ_OP_WRITE", BLOCK_OP_WRITE },
		{ "REQ_OP_FLUSH", BLOCK_OP_FLUSH },
		{ "REQ_OP_DISCARD", BLOCK_OP_DISCARD },
		{ "REQ_OP_SECURE_ERASE", BLOCK_OP_SECURE_ERASE },
		{ "REQ_OP_WRITE_ZEROES", BLOCK_OP_WRITE_ZEROES },
		{ "REQ_OP_ZONE_APPEND", BLOCK_OP_ZONE },
		{ "REQ_OP_ZONE_OPEN", BLOCK_OP_ZONE },
		{ "REQ_OP_ZONE_CLOSE", BLOCK_OP_ZONE },
		{ "REQ_OP_ZONE_FINISH", BLOCK_OP_ZONE },
		{ "REQ_OP_ZONE_RESET", BLOCK_OP_ZONE },
		{ "REQ_OP_ZONE_RESET_ALL", BLOCK_OP_ZONE },
		{ "REQ_OP_DRV_IN", BLOCK_OP_DRIVER },
		{ "REQ_OP_DRV_OUT", BLOCK_OP_DRIVER },
		{ "REQ_OP_SCSI_IN", BLOCK_OP_DRIVER },
		{ "REQ_OP_SCSI_OUT", BLOCK_OP_DRIVER },
	};
	enum block_op *ops = (enum block_op *)skel->rodata->block_ops;
	size_t numbers = sizeof(skel->rodata->block_ops) / sizeof(*ops);
	int id = btf__find_by_name_kind(btf, "req_op", BTF_KIND_ENUM);
	const struct btf_type *type;

	if (id < 0)
		id = btf__find_by_name_kind(btf, "req_opf", BTF_KIND_ENUM);
	if (id < 0)
		return collector_off(&state, "use another kernel",
				     "the kernel's type information has no enum req_op");
	type = btf__type_by_id(btf, id);
	for (size_t i = 0; i < numbers; i++)
		ops[i] = BLOCK_OP_OTHER;
	for (int i = 0; i < btf_vlen(type); i++) {
		const struct btf_enum *value = &btf_enum(type)[i];
		const char *name = btf__name_by_offset(btf, value->name_off);

		for (size_t j = 0; j < sizeof(known) / sizeof(known[0]); j++)
			if (!strcmp(name, known[j].name) && (uint32_t)value->val < numbers)
				ops[value->val] = known[j].op;
	}
	return 0;
}

/* Sets the number of the argument that is the bio or request, by tracepoint; chooses programs by compare-and-swap. */
static int adapt_to_kernel(void)
{
	bool cmpxchg = features_cmpxchg();
	struct btf *btf = bpf_load_kernel_btf(&state);
	const struct {
		const char *tracepoint, *struct_name;
		uint32_t *at;
		bool for_volumes;
	} tracepoints[] = {
		{ "block_bio_queue", "bio", (void *)&skel->rodata->queue_bio_at, false },
		{ "block_split", "bio", (void *)&skel->rodata->split_bio_at, false },
		{ "block_bio_frontmerge", "bio", (void *)&skel->rodata->frontmerge_bio_at, false },
		{ "block_rq_insert", "request", (void *)&skel->rodata->insert_rq_at, false },
		{ "block_rq_requeue", "request", (void *)&skel->rodata->requeue_rq_at, false },
		{ "block_rq_issue", "request", (void *)&skel->rodata->issue_rq_at, false },
		{ "block_bio_remap", "bio", (void *)&skel->rodata->remap_bio_at, true },
		{ "block_rq_remap", "request", (void *)&skel->rodata->remap_rq_at, true },
		{ "block_bio_complete", "bio", (void *)&skel->rodata->end_bio_at, true },
	};
	int at = 0, merge_at;
	bool sees_merge;

	if (!btf)
		return -1;
	for (size_t i = 0; i < sizeof(tracepoints) / sizeof(tracepoints[0]) && at >= 0; i++) {
		if (tracepoints[i].for_volumes && !have_volumes)
			continue;
		at = features_argument(btf, tracepoints[i].tracepoint, tracepoints[i].struct_name);
		*tracepoints[i].at = at;
		if (at < 0 || at > 2)
			at = collector_off(&state, "use another kernel",
					   "the kernel has no tracepoint %s with a struct %s",
					   tracepoints[i].tracepoint, tracepoints[i].struct_name);
	}
	merge_at = features_argument(btf, "block_rq_merge", "request");
	sees_merge = merge_at >= 0 && merge_at <= 2;
	skel->rodata->sees_rq_merge = sees_merge;
	skel->rodata->merge_rq_at = sees_merge ? merge_at : 0;
	if (have_volumes)
		skel->rodata->under_way_bit = features_enumerator(btf, "BIO_TRACE_COMPLETION");
	if (at >= 0 && read_operations(btf))
		at = -1;
	btf__free(btf);
	if (at < 0)
		return -1;
	bpf_program__set_autoattach(skel->progs.task_switch, false); /* see_switches() */
	if (bpf_program__set_autoload(skel->progs.bio_queue, cmpxchg) ||
	    bpf_program__set_autoload(skel->progs.bio_split, cmpxchg) ||
	    bpf_program__set_autoload(skel->progs.bio_queue_by_add, !cmpxchg) ||
	    bpf_program__set_autoload(skel->progs.bio_split_by_add, !cmpxchg) ||
	    bpf_program__set_autoload(skel->progs.rq_merge, sees_merge) ||
	    bpf_program__set_autoload(skel->progs.bio_remap, have_volumes) ||
	    bpf_program__set_autoload(skel->progs.rq_remap, have_volumes) ||
	    bpf_program__set_autoload(skel->progs.bio_complete, have_volumes) ||
	    bpf_program__set_autoload(skel->progs.check_bio, have_volumes) ||
	    bpf_program__set_autoload(skel->progs.task_waking, skel->rodata->have_task_contexts))
		return collector_off(&state, "report this", "a program can't be left out");
	return 0;
}

static int load(const struct options *options)
{
	cpus = libbpf_num_possible_cpus(); /* no time bins here, so no limit of CPUs */
	if (cpus <= 0)
		return collector_off(&state, "mount sysfs on /sys",
				     "the number of CPUs can't be read");
	skel = block_bpf__open();
	if (!skel)
		return bpf_open_failed(&state);
	if (configure(options))
		return bpf_size_failed(&state);
	if (adapt_to_kernel())
		return -1;
	if (block_bpf__load(skel))
		return bpf_load_failed(&state);
	if (bpf_set_workload(&state, options, skel->maps.workload_cgroup) ||
	    bpf_note_recorder(&state, skel->progs.note_recorder))
		return -1;
	inflight = map_memory(skel->maps.inflight, inflight_bytes, PROT_READ);
	counts = map_memory(skel->maps.counts, counts_bytes, PROT_READ);
	if (have_volumes)
		volume_bios = map_memory(skel->maps.volume_bios,
					 map_bytes(sizeof(struct volume_set), VOLUME_SETS),
					 PROT_READ);
	if (rings_map(&rings, skel->maps.rings) ||
	    rings_map(&volume_rings, skel->maps.volume_rings) || !inflight || !counts ||
	    (have_volumes && !volume_bios))
		return collector_off(&state, "free some memory", "a map can't be read: %s",
				     strerror(errno));
	return 0;
}

static bool check(const struct bpf_program *program, uint32_t slot)
{
	LIBBPF_OPTS(bpf_test_run_opts, nothing);

	skel->bss->checked_slot = slot;
	/* Refused: the table alone tells. */
	return bpf_prog_test_run_opts(bpf_program__fd(program), &nothing) ||
	       skel->bss->checked_is_there;
}

static bool is_under_way(uint32_t slot)
{
	return check(skel->progs.check_in_flight, slot);
}

static bool is_bio_under_way(uint32_t slot)
{
	return check(skel->progs.check_bio, slot);
}

/* Shows the triggers the requests in flight, and the bios to volumes. */
static void show_triggers(void)
{
	block_view = (struct block_view){ .slots = inflight,
					  .slot_count = bpf_map__max_entries(skel->maps.inflight),
					  .bios = volume_bios,
					  .bios_taken = skel->bss->volume_taken,
					  .disks = disks,
					  .disk_count = disk_count,
					  .is_under_way = is_under_way,
					  .is_bio_under_way = is_bio_under_way };
}

static void close_all(void)
{
	block_view = (struct block_view){ 0 };
	rec_file_close(file, &state);
	rec_file_close(volume_file, &state);
	file = volume_file = NULL;
	unmap_memory(counts, counts_bytes);
	unmap_memory(inflight, inflight_bytes);
	unmap_memory(volume_bios, map_bytes(sizeof(struct volume_set), VOLUME_SETS));
	rings_unmap(&rings);
	rings_unmap(&volume_rings);
	counts = NULL;
	inflight = NULL;
	volume_bios = NULL;
	state.object = NULL;
	block_bpf__destroy(skel);
	skel = NULL;
}

static int open_all(const struct options *options)
{
	in_ring = options->ring_keep_ns;
	if (!options->disk_count && !options->probe)
		return collector_off(&state, "name a disk: DEV=NAME, or a DIR that is on one",
				     "no disk to watch");
	if (load(options))
		return -1;
	file = rec_file_open(options, "block", bpf_object__btf(skel->obj), "block_record",
			     "block_flag");
	if (!file)
		return collector_off(&state, "free some space", "block.rec can't be written: %s",
				     strerror(errno));
	if (!have_volumes)
		return 0;
	volume_file = rec_file_open(options, "volume", bpf_object__btf(skel->obj), "volume_record",
				    "block_flag");
	if (!volume_file)
		return collector_off(&state, "free some space", "volume.rec can't be written: %s",
				     strerror(errno));
	return 0;
}

static int attach(void)
{
	if (block_bpf__attach(skel))
		return bpf_attach_failed(&state);
	skel->bss->attached_ns = monotonic_ns();
	state.object = skel->obj;
	second_has_requests();
	return 0;
}

static void begin(void)
{
	show_triggers();
	__atomic_store_n(&skel->bss->recording, true, __ATOMIC_RELEASE);
}

/*
 * This disk's driver completes requests in tasks (null_blk, NVMe over TCP, interrupts in threads): these completions end at a
 * switch. Most drivers do not, and are spared a program at each switch.
 */
static void see_switches(void)
{
	if (skel->links.task_switch)
		return;
	skel->links.task_switch = bpf_program__attach(skel->progs.task_switch);
	if (skel->links.task_switch)
		skel->bss->sees_switches = true;
}

static void read_counts(void)
{
	struct block_counts sum = { 0 };

	for (int i = 0; i < cpus; i++) {
		sum.completed += counts[i].completed;
		sum.partial += counts[i].partial;
		sum.issue_unseen += counts[i].issue_unseen;
		sum.issued_before += counts[i].issued_before;
		sum.complete_unseen += counts[i].complete_unseen;
		sum.empty_flushes += counts[i].empty_flushes;
		sum.bio_unknown += counts[i].bio_unknown;
		sum.bio_evicted += counts[i].bio_evicted;
		sum.merges_capped += counts[i].merges_capped;
		sum.no_slot += counts[i].no_slot;
		sum.merged_unknown += counts[i].merged_unknown;
		sum.volume_ended += counts[i].volume_ended;
		sum.volume_unseen += counts[i].volume_unseen;
		sum.volume_full += counts[i].volume_full;
		sum.volume_own += counts[i].volume_own;
		sum.ranges_cut += counts[i].ranges_cut;
		sum.origin_over += counts[i].origin_over;
		sum.waited_late += counts[i].waited_late;
		sum.completed_in_task += counts[i].completed_in_task;
	}
	sum.complete_unseen += ended_unseen;
	sum.volume_unseen += volumes_ended_unseen;
	state.seen = sum.completed + sum.issue_unseen + sum.complete_unseen + sum.no_slot +
		     sum.volume_ended + sum.volume_unseen + sum.volume_full;
	reason_set(state.lost, "issue not seen", sum.issue_unseen);
	reason_set(state.notes, "end not seen (no latency)", sum.complete_unseen);
	reason_set(state.lost, "tag outside the table", sum.no_slot);
	reason_set(state.notes, "issued before the start", sum.issued_before);
	reason_set(state.notes, "partial completions", sum.partial);
	reason_set(state.notes, "flush-only bios", sum.empty_flushes);
	reason_set(state.notes, "submitter from the request", sum.bio_unknown);
	reason_set(state.notes, "bios forgotten (set full)", sum.bio_evicted);
	reason_set(state.notes, "merges counted to 1024 only", sum.merges_capped);
	reason_set(state.notes, "merged with others of unknown queue times", sum.merged_unknown);
	reason_set(state.notes, "waited: told too late", sum.waited_late);
	reason_set(state.notes, "waited: completed in a task, waiter not looked for",
		   sum.completed_in_task);
	if (sum.completed_in_task && !skel->bss->sees_switches)
		see_switches();
	task_context_note(&state);
	if (!have_volumes)
		return;
	reason_set(state.lost, "volume: table full", sum.volume_full);
	reason_set(state.notes, "volume: end not seen (no latency)", sum.volume_unseen);
	reason_set(state.notes, "volume: remaps for no bio of it", sum.volume_own);
	reason_set(state.notes, "volume: bios too long for the table of sectors", sum.ranges_cut);
	reason_set(state.notes, "volume: origin over before the issue", sum.origin_over);
}

/* True: no recorded disk has a request in flight, by /sys. */
static bool disks_idle(void)
{
	for (int i = 0; i < disk_count; i++) {
		char path[80];
		int reads = 0, writes = 0, got;
		FILE *in;

		snprintf(path, sizeof(path), "/sys/block/%s/inflight", disks[i].name);
		in = fopen(path, "re");
		if (!in)
			return false;
		got = fscanf(in, "%d %d", &reads, &writes);
		fclose(in);
		if (got != 2 || reads || writes)
			return false;
	}
	return true;
}

/* The row of a request or bio whose end was not seen; bound_ns: it has ended by then, 0: that is not known. */
#define END_UNSEEN(record, bound_ns)                                           \
	do {                                                                   \
		(record)->complete_ns = 0;                                     \
		(record)->end_by_ns = (bound_ns);                              \
		(record)->error = 0;                                           \
		(record)->work_id = functions_note_low((record)->work_id);     \
		(record)->end_io_id = functions_note_low((record)->end_io_id); \
	} while (0)

/*
 * Requests issued whose completion was not seen. On idle disks they have completed: they become rows without a
 * completion time. On busy disks they may be in flight: a note counts them.
 */
static void write_open_requests(bool idle)
{
	size_t slots = bpf_map__max_entries(skel->maps.inflight);
	uint64_t open = 0, now = monotonic_ns();

	for (size_t i = 0; i < slots; i++) {
		if (!inflight[i].request)
			continue;
		open++;
		if (!idle)
			continue;
		struct block_record record = inflight[i].record;

		END_UNSEEN(&record, now);
		second_add_request(&record);
		state.recorded += rec_file_write(file, &state, &record, 1);
		ended_unseen++;
	}
	reason_set(state.notes, "open at the end", idle ? 0 : open);
}

/*
 * Bios to volumes that are open: rows, as of open requests above. A volume that is suspended counts as idle: it has bios that
 * nobody has sent down.
 */
static void write_open_bios(bool idle)
{
	uint64_t open = 0, now = monotonic_ns();

	for (size_t i = 0; i < VOLUME_SETS * VOLUME_WAYS; i++) {
		struct volume_set *set = &volume_bios[i / VOLUME_WAYS];
		struct volume_record record = set->way[i % VOLUME_WAYS].record;

		if (!set->bio[i % VOLUME_WAYS])
			continue;
		if (!idle || is_bio_under_way(i)) {
			open++;
			continue;
		}
		END_UNSEEN(&record, now);
		state.recorded += rec_file_write(volume_file, &state, &record, 1);
		volumes_ended_unseen++;
	}
	reason_set(state.notes, "volume: open at the end", open);
}

/*
 * A window is kept while requests are in flight, perhaps the one that fired: rows without any end, which come again, with it,
 * once they have ended. They are in no count: rows of their own, of what will be counted then.
 */
static struct collector_state uncounted;

static void write_requests_under_way(struct rec_file *to, uint64_t until_ns)
{
	struct block_record record;

	for (uint32_t i = 0; i < bpf_map__max_entries(skel->maps.inflight); i++) {
		if (!block_view_request(i, &record) || record.issue_ns > until_ns)
			continue;
		END_UNSEEN(&record, 0);
		rec_file_write(to, &uncounted, &record, 1);
	}
}

static void write_bios_under_way(struct rec_file *to, uint64_t until_ns)
{
	struct volume_record record;

	for (uint32_t i = 0; i < VOLUME_SETS * VOLUME_WAYS; i++) {
		if (!block_view_bio(i, &record) || record.queue_ns > until_ns)
			continue;
		END_UNSEEN(&record, 0);
		rec_file_write(to, &uncounted, &record, 1);
	}
}

static void keep(const struct options *kept, uint64_t from_ns, uint64_t until_ns)
{
	const struct btf *btf = bpf_object__btf(skel->obj);
	struct rec_file *to = rec_file_open(kept, "block", btf, "block_record", "block_flag");

	(void)from_ns;
	if (to) {
		write_requests_under_way(to, until_ns);
		rec_file_close(to, &uncounted);
	}
	if (to && have_volumes) {
		to = rec_file_open(kept, "volume", btf, "volume_record", "block_flag");
		if (to) {
			write_bios_under_way(to, until_ns);
			rec_file_close(to, &uncounted);
		}
	}
	if (!to)
		reason_add(state.notes, "requests under way of a kept window not written", 1);
}

static void write_under_way(bool idle)
{
	rec_files_flush(); /* what is counted */
	if (!idle)
		write_requests_under_way(file, UINT64_MAX);
	if (have_volumes)
		write_bios_under_way(volume_file, UINT64_MAX);
}

static void drain(bool last)
{
	reason_set(state.lost, "ring full", rings_drain(&rings, file, &state));
	if (have_volumes)
		reason_set(state.lost, "volume: ring full",
			   rings_drain(&volume_rings, volume_file, &state));
	if (last) {
		bool idle = disks_idle();

		write_open_requests(idle);
		if (have_volumes)
			write_open_bios(idle);
		/* A window may end here. */
		if (in_ring)
			write_under_way(idle);
	}
	read_counts();
}

static void detach(void)
{
	block_bpf__detach(skel);
	__atomic_store_n(&skel->bss->is_over, true, __ATOMIC_RELEASE);
}

static const struct collector_ops block_collector = {
	.name = "block",
	.order = 20,
	.on_by_default = true,
	.open = open_all,
	.attach = attach,
	.begin = begin,
	.drain = drain,
	.keep = keep,
	.detach = detach,
	.close = close_all,
	.state = &state,
};

REGISTER_COLLECTOR(block_collector)
REGISTER_IDLE_WORK(set_late_end_functions)
