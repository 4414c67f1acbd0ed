// SPDX-License-Identifier: BSD-2-Clause
/*
 * The triggers `request`, `stall` and `depth`: the tables of requests in flight and of bios to volumes are scanned ten times a
 * second.
 *
 * In the table is a request between its issue to the driver and its completion. One that still waits in the scheduler is
 * not seen: the ones before it are. A scan of 128 slots takes 2 us, one of a large table (64 queues of 1023 tags, 13 MB)
 * 0.4 ms with nothing in flight and 1.1 ms with all of it. Scans are further apart than 100 ms where they would take more
 * than half a percent of a CPU.
 *
 * A bio to a volume is in its table from its submission to its end: a volume that is suspended, or has no path left, holds bios
 * of which no disk has a request. `depth` is of disks alone.
 */
#include "block_triggers.h"

#include <stdio.h>
#include <string.h>

#include "recorder/clock.h"
#include "recorder/trigger_kind.h"

#define SCAN_EVERY_NS	 (100 * NS_PER_MS)
#define SCAN_COST_FACTOR 200 /* a scan takes at most this part of the time between scans */
#define SETS_AHEAD	 8 /* of the table of bios are fetched: each set is in a page of its own */

struct block_view block_view;

/* A request to a disk, or a bio to a volume. */
struct one_io {
	uint64_t sector;
	uint32_t bytes, dev, pid;
	enum block_op op;
	char comm[16];
};

/* What the last scan found on one disk or volume. */
struct disk_found {
	uint64_t in_flight;		 /* slots that hold a request, or a bio */
	uint64_t longest_ns, stalled_ns; /* 0: none beyond the limits */
	struct one_io longest;		 /* since it was queued */
	struct one_io oldest_issue;	 /* of those since whose issue nothing has completed */
};

static struct disk_found found[MAX_DEVS];
static uint64_t completed_ns[MAX_DEVS]; /* last seen completion of a disk's request */
static uint64_t scanned_ns, scan_pause_ns;
static uint64_t request_ns, stall_ns; /* the lowest limits */

static const struct trigger_kind request_kind, stall_kind, depth_kind;

static int disk_of(uint32_t dev)
{
	for (int i = 0; i < block_view.disk_count; i++)
		if ((block_view.disks[i].major << 20 | block_view.disks[i].minor) == dev)
			return i;
	return -1;
}

#define FILL_IO(io, record)                                             \
	do {                                                            \
		*(io) = (struct one_io){ .sector = (record)->sector,    \
					 .bytes = (record)->bytes,      \
					 .dev = (record)->dev,          \
					 .pid = (record)->pid,          \
					 .op = (record)->op };          \
		memcpy((io)->comm, (record)->comm, sizeof((io)->comm)); \
	} while (0)

static void describe(char *text, size_t room, const struct one_io *request)
{
	static const char *const ops[] = {
		"read",		"write",	  "discard",	      "flush",	"write of zeroes",
		"secure erase", "zone operation", "driver's command", "request"
	};
	int disk = disk_of(request->dev);

	snprintf(text, room, "%s of %u bytes at sector %llu of %s by %.16s (pid %u)",
		 request->op < sizeof(ops) / sizeof(*ops) ? ops[request->op] : "request",
		 request->bytes, (unsigned long long)request->sector,
		 disk < 0 ? "?" : block_view.disks[disk].name, request->comm, request->pid);
}

/* False: of no concern to `request`. */
static bool note_end(uint32_t dev, uint64_t queue_ns, uint64_t complete_ns)
{
	int disk;

	if (!complete_ns)
		return false;
	if (trigger_of(&stall_kind, 0)) {
		disk = disk_of(dev);
		if (disk >= 0 && complete_ns > completed_ns[disk])
			completed_ns[disk] = complete_ns;
	}
	return complete_ns - queue_ns >= trigger_lowest(&request_kind);
}

static void report_ended(const struct one_io *io, uint64_t took_ns)
{
	struct trigger *trigger;
	char text[160];

	describe(text, sizeof(text), io);
	for_each_trigger(trigger, &request_kind) if (took_ns >= trigger->limit)
		trigger_report(trigger, took_ns, "%s, took %.3f ms", text, took_ns / 1e6);
}

void block_triggers_row(const struct block_record *row)
{
	struct one_io io;

	if (!note_end(row->dev, row->queue_ns, row->complete_ns))
		return;
	FILL_IO(&io, row);
	report_ended(&io, row->complete_ns - row->queue_ns);
}

void block_triggers_bio(const struct volume_record *row)
{
	struct one_io io;

	if (!note_end(row->dev, row->queue_ns, row->complete_ns))
		return;
	FILL_IO(&io, row);
	report_ended(&io, row->complete_ns - row->queue_ns);
}

bool block_view_request(uint32_t index, struct block_record *record)
{
	const struct block_inflight *slot = &block_view.slots[index];
	uint64_t request = __atomic_load_n(&slot->request, __ATOMIC_ACQUIRE);

	if (!request)
		return false;
	memcpy(record, &slot->record, sizeof(*record));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&slot->request, __ATOMIC_RELAXED) == request &&
	       __atomic_load_n(&slot->record.issue_ns, __ATOMIC_RELAXED) == record->issue_ns &&
	       block_view.is_under_way(index);
}

bool block_view_bio(uint32_t index, struct volume_record *record)
{
	const struct volume_set *set = &block_view.bios[index / VOLUME_WAYS];
	const uint64_t *word = &set->bio[index % VOLUME_WAYS];
	const struct volume_record *from = &set->way[index % VOLUME_WAYS].record;
	uint64_t bio = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	if (!bio)
		return false;
	memcpy(record, from, sizeof(*record));
	/* Last: a slot that was taken just now holds another bio's record until it is filled in. */
	return block_view.is_bio_under_way(index) &&
	       __atomic_load_n(word, __ATOMIC_ACQUIRE) == bio &&
	       __atomic_load_n(&from->bio_id, __ATOMIC_RELAXED) == record->bio_id &&
	       __atomic_load_n(&from->queue_ns, __ATOMIC_RELAXED) == record->queue_ns;
}

/* How long a request or bio has been there, where that is beyond the limits and more than found so far; else 0. */
struct beyond {
	uint64_t longest_ns, stalled_ns;
};

/* now_ns is a time before the rows were taken in: all completions until then are known. */
static struct beyond beyond_limits(int disk, uint64_t now_ns, uint64_t queued_ns,
				   uint64_t issued_ns)
{
	struct beyond beyond = { 0 };
	uint64_t since_ns;

	if (issued_ns > now_ns || queued_ns > now_ns)
		return beyond;
	since_ns = completed_ns[disk] > issued_ns ? completed_ns[disk] : issued_ns;
	if (now_ns - queued_ns >= request_ns && now_ns - queued_ns > found[disk].longest_ns)
		beyond.longest_ns = now_ns - queued_ns;
	if (since_ns <= now_ns && now_ns - since_ns >= stall_ns &&
	    now_ns - since_ns > found[disk].stalled_ns)
		beyond.stalled_ns = now_ns - since_ns;
	return beyond;
}

static void note_found(int disk, const struct beyond *beyond, const struct one_io *io)
{
	if (beyond->longest_ns) {
		found[disk].longest_ns = beyond->longest_ns;
		found[disk].longest = *io;
	}
	if (beyond->stalled_ns) {
		found[disk].stalled_ns = beyond->stalled_ns;
		found[disk].oldest_issue = *io;
	}
}

static void look_at_slot(uint32_t index, uint64_t now_ns)
{
	const struct block_inflight *slot = &block_view.slots[index];
	uint64_t queued_ns = __atomic_load_n(&slot->record.queue_ns, __ATOMIC_RELAXED);
	uint64_t issued_ns = __atomic_load_n(&slot->record.issue_ns, __ATOMIC_RELAXED);
	int disk = disk_of(slot->record.dev);
	struct block_record record;
	struct beyond beyond;
	struct one_io io;

	if (disk < 0)
		return;
	found[disk].in_flight++;
	beyond = beyond_limits(disk, now_ns, queued_ns, issued_ns);
	if (!(beyond.longest_ns || beyond.stalled_ns) || !block_view_request(index, &record) ||
	    record.issue_ns != issued_ns || record.queue_ns != queued_ns)
		return;
	FILL_IO(&io, &record);
	note_found(disk, &beyond, &io);
}

static void look_at_bio(uint32_t index, uint64_t now_ns)
{
	const struct volume_record *seen =
		&block_view.bios[index / VOLUME_WAYS].way[index % VOLUME_WAYS].record;
	uint64_t queued_ns = __atomic_load_n(&seen->queue_ns, __ATOMIC_RELAXED);
	int disk = disk_of(seen->dev);
	struct volume_record record;
	struct beyond beyond;
	struct one_io io;

	if (disk < 0)
		return;
	found[disk].in_flight++;
	beyond = beyond_limits(disk, now_ns, queued_ns, queued_ns);
	if (!(beyond.longest_ns || beyond.stalled_ns) || !block_view_bio(index, &record) ||
	    record.queue_ns != queued_ns)
		return;
	FILL_IO(&io, &record);
	note_found(disk, &beyond, &io);
}

static bool look_at_set(uint32_t set, uint64_t now_ns)
{
	bool is_empty = true;

	for (uint32_t way = 0; way < VOLUME_WAYS; way++) {
		if (!__atomic_load_n(&block_view.bios[set].bio[way], __ATOMIC_RELAXED))
			continue;
		is_empty = false;
		look_at_bio(set * VOLUME_WAYS + way, now_ns);
	}
	return is_empty;
}

static void scan_bios(uint64_t now_ns)
{
	uint8_t *taken = block_view.bios_taken;

	for (uint32_t set = 0; set < VOLUME_SETS; set++) {
		uint32_t ahead = (set + SETS_AHEAD) % VOLUME_SETS;

		if (taken[ahead])
			__builtin_prefetch(&block_view.bios[ahead]);
		if (!taken[set])
			continue;
		/* Before the look: a bio that comes after it leaves its mark. */
		__atomic_exchange_n(&taken[set], 0, __ATOMIC_SEQ_CST);
		if (!look_at_set(set, now_ns))
			__atomic_store_n(&taken[set], 1, __ATOMIC_RELAXED);
	}
}

static void scan(uint64_t now_ns)
{
	static uint64_t cost_before_ns;
	uint64_t begin_ns = thread_cpu_ns(), cost_ns;

	request_ns = trigger_lowest(&request_kind);
	stall_ns = trigger_lowest(&stall_kind);
	for (int i = 0; i < block_view.disk_count; i++)
		found[i].in_flight = found[i].longest_ns = found[i].stalled_ns = 0;
	for (size_t i = 0; i < block_view.slot_count; i++)
		if (__atomic_load_n(&block_view.slots[i].request, __ATOMIC_RELAXED))
			look_at_slot(i, now_ns);
	if (block_view.bios && (trigger_of(&request_kind, 0) || trigger_of(&stall_kind, 0)))
		scan_bios(now_ns);
	cost_ns = thread_cpu_ns() - begin_ns;
	/* The lower of two: what a hypervisor took within a scan is in its CPU time, and would put the next one off. */
	scan_pause_ns = (cost_ns < cost_before_ns ? cost_ns : cost_before_ns) * SCAN_COST_FACTOR;
	cost_before_ns = cost_ns;
	if (scan_pause_ns < SCAN_EVERY_NS)
		scan_pause_ns = SCAN_EVERY_NS;
	scanned_ns = now_ns;
}

/* True: the scan is of this tick, made for this trigger or for one before it. */
static bool scanned(struct trigger *trigger, uint64_t now_ns)
{
	trigger->hold_ns = TRIGGER_HOLD_NS + scan_pause_ns;
	if (block_view.slots && now_ns - scanned_ns >= scan_pause_ns)
		scan(now_ns);
	return scanned_ns == now_ns;
}

static void tick_request(struct trigger *trigger, uint64_t now_ns)
{
	char text[160];

	if (!scanned(trigger, now_ns))
		return;
	for (int i = 0; i < block_view.disk_count; i++) {
		if (!found[i].longest_ns || found[i].longest_ns < trigger->limit)
			continue;
		describe(text, sizeof(text), &found[i].longest);
		trigger_report(trigger, found[i].longest_ns, "%s, not ended yet after %.3f ms",
			       text, found[i].longest_ns / 1e6);
	}
}

static void tick_stall(struct trigger *trigger, uint64_t now_ns)
{
	char text[160];

	if (!scanned(trigger, now_ns))
		return;
	for (int i = 0; i < block_view.disk_count; i++) {
		if (!found[i].stalled_ns || found[i].stalled_ns < trigger->limit)
			continue;
		describe(text, sizeof(text), &found[i].oldest_issue);
		trigger_report(trigger, found[i].stalled_ns,
			       "%s completed nothing for %.3f ms, %llu in flight, among them: %s",
			       block_view.disks[i].name, found[i].stalled_ns / 1e6,
			       (unsigned long long)found[i].in_flight, text);
	}
}

/* How many of a disk's slots hold a request that is under way; counted as far as `enough`. */
static uint64_t count_under_way(int disk, uint64_t enough)
{
	uint64_t count = 0;

	for (size_t i = 0; i < block_view.slot_count && count < enough; i++)
		count += __atomic_load_n(&block_view.slots[i].request, __ATOMIC_RELAXED) &&
			 disk_of(block_view.slots[i].record.dev) == disk &&
			 block_view.is_under_way(i);
	return count;
}

static void tick_depth(struct trigger *trigger, uint64_t now_ns)
{
	if (!scanned(trigger, now_ns))
		return;
	for (int i = 0; i < block_view.disk_count; i++) {
		uint64_t depth = found[i].in_flight;

		if (block_view.disks[i].is_volume)
			continue;
		/* Only then is each asked for, which takes a system call. */
		if (depth >= trigger->limit)
			depth = count_under_way(i, trigger->holds ? trigger->limit : UINT64_MAX);
		if (depth >= trigger->limit)
			trigger_report(trigger, depth, "%llu requests in flight on %s",
				       (unsigned long long)depth, block_view.disks[i].name);
	}
}

static const struct trigger_kind request_kind = {
	.name = "request",
	.syntax = "request:NS",
	.needs = "block",
	.parse = trigger_parse_limit,
	.tick = tick_request,
};

static const struct trigger_kind stall_kind = {
	.name = "stall",
	.syntax = "stall:NS",
	.needs = "block",
	.parse = trigger_parse_limit,
	.tick = tick_stall,
};

static const struct trigger_kind depth_kind = {
	.name = "depth",
	.syntax = "depth:N",
	.needs = "block",
	.parse = trigger_parse_limit,
	.tick = tick_depth,
};

REGISTER_TRIGGER(request_kind)
REGISTER_TRIGGER(stall_kind)
REGISTER_TRIGGER(depth_kind)
