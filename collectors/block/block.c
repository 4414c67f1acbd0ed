// SPDX-License-Identifier: BSD-2-Clause
/*
 * The block collector: one row per request, from the completion rings of block.bpf.c into block.rec.
 *
 * A row has the times of queue (Q), insert, issue (D) and completion (C), the request's sectors, flags and class, and
 * who submitted it.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>

#include "common/records.h"
#include "dev_table.h"
#include "recorder/bpf_attach.h"
#include "recorder/bpf_maps.h"
#include "recorder/clock.h"
#include "recorder/disks.h"
#include "recorder/features.h"
#include "recorder/options.h"
#include "recorder/rec_file.h"
#include "recorder/registry.h"

#include "block.skel.h" /* uses the types of records.h */

#define RINGS_BYTES_MAX	 (64UL << 20)
#define RING_RECORDS_MAX 32768
#define RING_RECORDS_MIN 1024

/*
 * No skip counts as lost by itself: a skipped issue shows as a completion without an issue, a skipped completion at the
 * tag's next issue. Most skips concern the disk below a loop device: the programs see every disk's requests.
 */
static struct collector_state state = { .begins = "" };
static struct block_bpf *skel;
static struct rec_file *file;
static char *rings;
static struct block_inflight *inflight;
static struct block_counts *counts;
static size_t ring_bytes, rings_bytes, inflight_bytes, counts_bytes;
static uint64_t ring_mask;
static uint64_t ended_unseen;
static const struct disk *disks;
static int disk_count;
static int cpus, ring_count;

/* block/blk-core.c, blk_errors[]: the number is blk_status_t, which is no ABI but has only grown since 4.13. */
static const int blk_errnos[] = {
	[1] = EOPNOTSUPP, [2] = ETIMEDOUT, [3] = ENOSPC,  [4] = ENOLINK,
	[5] = EREMOTEIO,  [6] = EBADE,	   [7] = ENODATA, [8] = EILSEQ,
	[9] = ENOMEM,	  [10] = EIO,	   [11] = EBUSY,  [12] = EAGAIN,
};

/* status: blk_status_t, or -errno on some kernels. */
static int to_errno(int status)
{
	if (status < 0)
		return -status;
	if (status > 0 && status < (int)(sizeof(blk_errnos) / sizeof(blk_errnos[0])) &&
	    blk_errnos[status])
		return blk_errnos[status];
	return status ? EIO : 0;
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

/* Sizes the rings to the number of CPUs and the table of requests in flight to the disks' tags. */
static int configure(const struct options *options)
{
	uint64_t records = RING_RECORDS_MAX;

	while (records > RING_RECORDS_MIN &&
	       records * cpus * BLOCK_RINGS_PER_CPU * sizeof(struct block_record) > RINGS_BYTES_MAX)
		records /= 2;
	ring_count = cpus * BLOCK_RINGS_PER_CPU;
	ring_mask = records - 1;
	ring_bytes = sizeof(struct block_ring) + records * sizeof(struct block_record);
	rings_bytes = map_bytes(ring_bytes, ring_count);
	skel->rodata->ring_mask = ring_mask;
	skel->rodata->have_cgroup = options->cgroup_fd >= 0;
	/* A probe has none, but the verifier must check the code that uses it. */
	skel->rodata->memory_cgroup_id = options->probe ? 1 : options->memory_cgroup_id;
	disks = options->disks;
	disk_count = options->disk_count;
	if (set_devices(options))
		return -1;
	inflight_bytes =
		map_bytes(sizeof(struct block_inflight), bpf_map__max_entries(skel->maps.inflight));
	counts_bytes = map_bytes(sizeof(struct block_counts), cpus);
	if (bpf_map__set_value_size(skel->maps.rings, ring_bytes) ||
	    bpf_map__set_max_entries(skel->maps.rings, ring_count) ||
	    bpf_map__set_max_entries(skel->maps.counts, cpus))
		return -1;
	return 0;
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
	} tracepoints[] = {
		{ "block_bio_queue", "bio", (void *)&skel->rodata->queue_bio_at },
		{ "block_split", "bio", (void *)&skel->rodata->split_bio_at },
		{ "block_bio_frontmerge", "bio", (void *)&skel->rodata->frontmerge_bio_at },
		{ "block_rq_insert", "request", (void *)&skel->rodata->insert_rq_at },
		{ "block_rq_requeue", "request", (void *)&skel->rodata->requeue_rq_at },
		{ "block_rq_issue", "request", (void *)&skel->rodata->issue_rq_at },
	};
	int at = 0, merge_at;
	bool sees_merge;

	if (!btf)
		return -1;
	for (size_t i = 0; i < sizeof(tracepoints) / sizeof(tracepoints[0]) && at >= 0; i++) {
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
	if (at >= 0 && read_operations(btf))
		at = -1;
	btf__free(btf);
	if (at < 0)
		return -1;
	if (bpf_program__set_autoload(skel->progs.bio_queue, cmpxchg) ||
	    bpf_program__set_autoload(skel->progs.bio_split, cmpxchg) ||
	    bpf_program__set_autoload(skel->progs.bio_queue_by_add, !cmpxchg) ||
	    bpf_program__set_autoload(skel->progs.bio_split_by_add, !cmpxchg) ||
	    bpf_program__set_autoload(skel->progs.rq_merge, sees_merge))
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
	if (bpf_set_workload_cgroup(&state, options, skel->maps.workload_cgroup) ||
	    bpf_note_recorder(&state, skel->progs.note_recorder))
		return -1;
	rings = map_memory(skel->maps.rings, rings_bytes, PROT_READ | PROT_WRITE);
	inflight = map_memory(skel->maps.inflight, inflight_bytes, PROT_READ);
	counts = map_memory(skel->maps.counts, counts_bytes, PROT_READ);
	if (!rings || !inflight || !counts)
		return collector_off(&state, "free some memory", "a map can't be read: %s",
				     strerror(errno));
	return 0;
}

static void close_all(void)
{
	rec_file_close(file, &state);
	file = NULL;
	unmap_memory(counts, counts_bytes);
	unmap_memory(inflight, inflight_bytes);
	unmap_memory(rings, rings_bytes);
	counts = NULL;
	inflight = NULL;
	rings = NULL;
	state.object = NULL;
	block_bpf__destroy(skel);
	skel = NULL;
}

static int open_all(const struct options *options)
{
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
	return 0;
}

static int attach(void)
{
	if (block_bpf__attach(skel))
		return bpf_attach_failed(&state);
	skel->bss->attached_ns = monotonic_ns();
	state.object = skel->obj;
	return 0;
}

static void begin(void)
{
	__atomic_store_n(&skel->bss->recording, true, __ATOMIC_RELEASE);
}

static void drain_ring(struct block_ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);

	while (ring->tail != head) {
		uint64_t at = ring->tail & ring_mask;
		uint64_t run = ring_mask + 1 - at;

		if (run > head - ring->tail)
			run = head - ring->tail;
		for (uint64_t i = at; i < at + run; i++)
			if (ring->records[i].error)
				ring->records[i].error = to_errno(ring->records[i].error);
		state.recorded += rec_file_write(file, &state, &ring->records[at], run);
		__atomic_store_n(&ring->tail, ring->tail + run, __ATOMIC_RELEASE);
	}
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
	}
	sum.complete_unseen += ended_unseen;
	state.seen = sum.completed + sum.issue_unseen + sum.complete_unseen + sum.no_slot;
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

/*
 * Requests issued whose completion was not seen. On idle disks they have completed: they become rows without a
 * completion time. On busy disks they may be in flight: a note counts them.
 */
static void write_open_requests(void)
{
	size_t slots = bpf_map__max_entries(skel->maps.inflight);
	bool idle = disks_idle();
	uint64_t open = 0, now = monotonic_ns();

	for (size_t i = 0; i < slots; i++) {
		if (!inflight[i].request)
			continue;
		open++;
		if (!idle)
			continue;
		struct block_record record = inflight[i].record;

		record.complete_ns = 0;
		record.end_by_ns = now;
		record.error = 0;
		state.recorded += rec_file_write(file, &state, &record, 1);
		ended_unseen++;
	}
	reason_set(state.notes, "open at the end", idle ? 0 : open);
}

static void drain(bool last)
{
	uint64_t full = 0;

	for (int i = 0; i < ring_count; i++) {
		struct block_ring *ring = (void *)(rings + i * ring_bytes);

		drain_ring(ring);
		full += ring->full;
	}
	reason_set(state.lost, "ring full", full);
	if (last)
		write_open_requests();
	read_counts();
}

static void detach(void)
{
	block_bpf__detach(skel);
}

static const struct collector_ops block_collector = {
	.name = "block",
	.order = 20,
	.on_by_default = true,
	.open = open_all,
	.attach = attach,
	.begin = begin,
	.drain = drain,
	.detach = detach,
	.close = close_all,
	.state = &state,
};

REGISTER_COLLECTOR(block_collector)
