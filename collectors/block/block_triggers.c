// SPDX-License-Identifier: BSD-2-Clause
/*
 * The triggers `request`, `stall` and `depth`: the table of requests in flight is scanned ten times a second.
 *
 * In the table is a request between its issue to the driver and its completion. One that still waits in the scheduler is
 * not seen: the ones before it are. A scan of 128 slots takes 2 us, one of a large table (64 queues of 1023 tags, 13 MB)
 * 0.4 ms with nothing in flight and 1.1 ms with all of it. Scans are further apart than 100 ms where they would take more
 * than half a percent of a CPU.
 */
#include "block_triggers.h"

#include <stdio.h>
#include <string.h>

#include "recorder/clock.h"
#include "recorder/trigger_kind.h"

#define SCAN_EVERY_NS	 (100 * NS_PER_MS)
#define SCAN_COST_FACTOR 200 /* a scan takes at most this part of the time between scans */

struct block_view block_view;

/* What the last scan found on one disk. */
struct disk_found {
	uint64_t in_flight;		  /* slots that hold a request */
	uint64_t longest_ns, stalled_ns;  /* 0: none beyond the limits */
	struct block_record longest;	  /* since it was queued */
	struct block_record oldest_issue; /* of those since whose issue nothing has completed */
};

static struct disk_found found[MAX_DEVS];
static uint64_t completed_ns[MAX_DEVS]; /* last seen completion of a disk's request */
static uint64_t scanned_ns, scan_pause_ns;

static const struct trigger_kind request_kind, stall_kind, depth_kind;

static int disk_of(uint32_t dev)
{
	for (int i = 0; i < block_view.disk_count; i++)
		if ((block_view.disks[i].major << 20 | block_view.disks[i].minor) == dev)
			return i;
	return -1;
}

static void describe(char *text, size_t room, const struct block_record *request)
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

void block_triggers_row(const struct block_record *row)
{
	struct trigger *trigger;
	uint64_t took_ns;
	char text[160];
	int disk;

	if (!row->complete_ns)
		return;
	if (trigger_of(&stall_kind, 0)) {
		disk = disk_of(row->dev);
		if (disk >= 0 && row->complete_ns > completed_ns[disk])
			completed_ns[disk] = row->complete_ns;
	}
	if (!trigger_of(&request_kind, 0))
		return;
	took_ns = row->complete_ns - row->queue_ns;
	if (took_ns < trigger_lowest(&request_kind))
		return;
	describe(text, sizeof(text), row);
	for_each_trigger(trigger, &request_kind) if (took_ns >= trigger->limit)
		trigger_report(trigger, took_ns, "%s, took %.3f ms", text, took_ns / 1e6);
}

/* Copies what a slot holds. False: nothing, or it changed meanwhile. */
static bool read_slot(const struct block_inflight *slot, struct block_record *record)
{
	uint64_t request = __atomic_load_n(&slot->request, __ATOMIC_ACQUIRE);

	if (!request)
		return false;
	memcpy(record, &slot->record, sizeof(*record));
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&slot->request, __ATOMIC_RELAXED) == request &&
	       __atomic_load_n(&slot->record.issue_ns, __ATOMIC_RELAXED) == record->issue_ns;
}

/* now_ns is a time before the rows were taken in: all completions until then are known. */
static void look_at_slot(uint32_t index, uint64_t now_ns, uint64_t request_ns, uint64_t stall_ns)
{
	const struct block_inflight *slot = &block_view.slots[index];
	uint64_t queued_ns = __atomic_load_n(&slot->record.queue_ns, __ATOMIC_RELAXED);
	uint64_t issued_ns = __atomic_load_n(&slot->record.issue_ns, __ATOMIC_RELAXED);
	int disk = disk_of(slot->record.dev);
	struct block_record record;
	bool is_longest, is_stalled;
	uint64_t since_ns;

	if (disk < 0)
		return;
	found[disk].in_flight++;
	if (issued_ns > now_ns || queued_ns > now_ns)
		return;
	since_ns = completed_ns[disk] > issued_ns ? completed_ns[disk] : issued_ns;
	is_longest = now_ns - queued_ns >= request_ns &&
		     now_ns - queued_ns > found[disk].longest_ns;
	is_stalled = since_ns <= now_ns && now_ns - since_ns >= stall_ns &&
		     now_ns - since_ns > found[disk].stalled_ns;
	if (!(is_longest || is_stalled) || !read_slot(slot, &record) ||
	    record.issue_ns != issued_ns || record.queue_ns != queued_ns ||
	    !block_view.is_under_way(index))
		return;
	if (is_longest) {
		found[disk].longest_ns = now_ns - queued_ns;
		found[disk].longest = record;
	}
	if (is_stalled) {
		found[disk].stalled_ns = now_ns - since_ns;
		found[disk].oldest_issue = record;
	}
}

static void scan(uint64_t now_ns)
{
	uint64_t request_ns = trigger_lowest(&request_kind), stall_ns = trigger_lowest(&stall_kind);
	uint64_t begin_ns = thread_cpu_ns();

	for (int i = 0; i < block_view.disk_count; i++)
		found[i].in_flight = found[i].longest_ns = found[i].stalled_ns = 0;
	for (size_t i = 0; i < block_view.slot_count; i++)
		if (__atomic_load_n(&block_view.slots[i].request, __ATOMIC_RELAXED))
			look_at_slot(i, now_ns, request_ns, stall_ns);
	scan_pause_ns = (thread_cpu_ns() - begin_ns) * SCAN_COST_FACTOR;
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
