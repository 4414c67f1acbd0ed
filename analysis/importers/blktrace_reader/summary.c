// SPDX-License-Identifier: BSD-2-Clause
#include "summary.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct reason {
	const char *name;
	uint64_t count;
};

static struct stream_counts sum_of(const struct stream *streams, size_t count)
{
	struct stream_counts sum = { 0 };

	for (size_t i = 0; i < count; i++) {
		const struct stream_counts *one = &streams[i].counts;

		sum.bytes += one->bytes;
		sum.events += one->events;
		sum.cut_bytes += one->cut_bytes;
		sum.cut_events += one->cut_events;
		sum.unreadable_bytes += one->unreadable_bytes;
		sum.lost_marked += one->lost_marked;
		sum.impossible += one->impossible;
	}
	return sum;
}

static void write_reasons(FILE *out, const char *key, const struct reason *reasons, size_t count)
{
	const char *comma = "";

	fprintf(out, "\"%s\":{", key);
	for (size_t i = 0; i < count; i++) {
		if (!reasons[i].count)
			continue;
		fprintf(out, "%s\"%s\":%" PRIu64, comma, reasons[i].name, reasons[i].count);
		comma = ",";
	}
	fputc('}', out);
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void write_losses(FILE *out, const struct stream_counts *sum,
			 const struct requests *requests, uint64_t cpu_ns)
{
	const struct request_counts *counts = &requests->counts;
	const struct reason lost[] = {
		{ "issue not seen", counts->issue_unseen },
		{ "events lost, by the kernel's marks", sum->lost_marked },
		{ "events missing, by their numbers", devices_missing(&requests->devices) },
		{ "events cut off by the end of a file", sum->cut_events },
		{ "events with an impossible time or place", sum->impossible + counts->too_late },
		{ "events of an unknown kind", counts->unknown_action },
		{ "events of too many devices", counts->no_device },
		{ "bios forgotten (too many open)", counts->forgotten },
		{ "remaps cut short", counts->remap_cut },
		{ "volume: bio of an end not seen", counts->bio_unseen },
	};
	const struct reason notes[] = {
		{ "issued before the start", counts->issued_before },
		{ "submitter from the request", counts->queue_unseen },
		{ "end not seen (no latency)", counts->complete_unseen },
		{ "partial completions", counts->partial },
		{ "completions that blkparse had made longer, put right", counts->longer },
		{ "flush-only bios", counts->empty_flushes },
		{ "bios that failed before a request", counts->failed_unissued },
		{ "rows that are bios, as no requests were traced", counts->bio_rows },
		{ "requests whose merges were not all seen", counts->merges_unseen },
		{ "requeues of requests not seen", counts->requeue_unknown },
		{ "events out of order", counts->disordered },
		{ "bios queued and not issued at the end", counts->open_queued },
		{ "open at the end", counts->open_in_flight },
		{ "volume: end not seen (no latency)", counts->bio_end_unseen },
		{ "volume: queued before the start", counts->bio_queued_before },
		{ "volume: ends of a part of a bio", counts->bio_parts },
		{ "volume: remaps that serve no bio seen", counts->remap_unmatched },
		{ "volume: open at the end", counts->open_bios },
		{ "bytes cut off by the end of a file", sum->cut_bytes },
		{ "bytes that are no event", sum->unreadable_bytes },
	};

	fprintf(out,
		"{\"collectors\":{\"block\":{\"state\":\"on\",\"why\":\"\",\"remedy\":\"\","
		"\"seen\":%" PRIu64 ",\"recorded\":%" PRIu64 ",",
		requests->output->rows + counts->issue_unseen + counts->issued_before,
		requests->output->rows);
	write_reasons(out, "lost", lost, COUNT_OF(lost));
	fputc(',', out);
	write_reasons(out, "notes", notes, COUNT_OF(notes));
	/* cpu_ns of the import is no cost to what was traced: it is a fact of its own. */
	fprintf(out, "}},\"import\":{\"cpu_ns\":%" PRIu64 "},\"complete\":true}\n", cpu_ns);
}

int summary_write_losses(int directory, const struct stream *streams, size_t count,
			 const struct requests *requests, uint64_t cpu_ns)
{
	int fd = openat(directory, "losses.json", O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
	struct stream_counts sum = sum_of(streams, count);
	FILE *out;

	if (fd < 0)
		return -1;
	out = fdopen(fd, "w");
	if (!out) {
		close(fd);
		return -1;
	}
	write_losses(out, &sum, requests, cpu_ns);
	return fclose(out) ? -1 : 0;
}

/* As blkparse abbreviates them. */
static const char *const action_letters[ACTION_COUNT] = {
	[ACTION_QUEUE] = "Q",
	[ACTION_BACK_MERGE] = "M",
	[ACTION_FRONT_MERGE] = "F",
	[ACTION_GET_REQUEST] = "G",
	[ACTION_SLEEP] = "S",
	[ACTION_REQUEUE] = "R",
	[ACTION_ISSUE] = "D",
	[ACTION_COMPLETE] = "C",
	[ACTION_PLUG] = "P",
	[ACTION_UNPLUG] = "U",
	[ACTION_UNPLUG_TIMER] = "UT",
	[ACTION_INSERT] = "I",
	[ACTION_SPLIT] = "X",
	[ACTION_BOUNCE] = "B",
	[ACTION_REMAP] = "A",
	[ACTION_ABORT] = "abort",
	[ACTION_DRIVER_DATA] = "driver data",
};

/* Which file is all of one device, so that the file's name can name it. */
static void write_files(FILE *out, const struct stream *streams, size_t count)
{
	const char *comma = "";

	fputs("\"files\":[", out);
	for (size_t i = 0; i < count; i++) {
		if (!streams[i].one_device)
			continue;
		fprintf(out, "%s{\"index\":%d,\"dev\":\"%u:%u\"}", comma, streams[i].index,
			streams[i].device >> 20, streams[i].device & 0xfffff);
		comma = ",";
	}
	fputs("],", out);
}

static void write_devices(FILE *out, const struct devices *devices)
{
	fputs("\"devices\":[", out);
	for (size_t i = 0; i < devices->count; i++) {
		const struct device *device = &devices->table[i];

		fprintf(out,
			"%s{\"dev\":\"%u:%u\",\"events\":%" PRIu64 ",\"rows\":%" PRIu64
			",\"bio_rows\":%" PRIu64 ",\"bios\":%s,\"volume\":%s}",
			i ? "," : "", device->number >> 20, device->number & 0xfffff,
			device->events, device->rows, device->bio_rows,
			device->rows && !device->takes_requests ? "true" : "false",
			device_is_volume(device) && !device->rows ? "true" : "false");
	}
	fputs("],\"remaps\":[", out);
	for (size_t i = 0; i < devices->remap_count; i++) {
		const struct remap *remap = &devices->remaps[i];

		fprintf(out, "%s{\"from\":\"%u:%u\",\"to\":\"%u:%u\",\"count\":%" PRIu64,
			i ? "," : "", remap->from >> 20, remap->from & 0xfffff, remap->to >> 20,
			remap->to & 0xfffff, remap->count);
		if (remap->through)
			fprintf(out, ",\"through\":\"%u:%u\"", remap->through >> 20,
				remap->through & 0xfffff);
		if (remap->is_linear && remap->first_sector < MAX_SECTOR)
			fprintf(out, ",\"first_sector\":%" PRIu64, remap->first_sector);
		fputc('}', out);
	}
	fputs("],", out);
}

int summary_print_facts(FILE *out, const struct stream *streams, size_t count,
			const struct requests *requests)
{
	struct stream_counts sum = sum_of(streams, count);
	const char *comma = "";

	fprintf(out,
		"{\"bytes\":%" PRIu64 ",\"events\":%" PRIu64 ",\"notes\":%" PRIu64
		",\"other_byte_order\":%s,\"rows\":%" PRIu64 ",\"first_ns\":%" PRIu64
		",\"last_ns\":%" PRIu64 ",\"shift_ns\":%" PRIu64 ",",
		sum.bytes, requests->events,
		requests->notes[0] + requests->notes[1] + requests->notes[2],
		count && streams[0].swapped ? "true" : "false", requests->output->rows,
		requests->first_ns, requests->last_ns, requests->shift_ns);
	fprintf(out, "\"process_notes\":%" PRIu64 ",", requests->notes[NOTIFY_PROCESS]);
	/* In a dump the wall clock is told for another time than the events'. */
	if (requests->has_realtime && !requests->shift_ns)
		fprintf(out, "\"realtime_offset_ns\":%" PRId64 ",", requests->realtime_offset_ns);
	write_files(out, streams, count);
	write_devices(out, &requests->devices);
	fputs("\"actions\":{", out);
	for (int i = 0; i < ACTION_COUNT; i++) {
		if (!requests->actions[i])
			continue;
		fprintf(out, "%s\"%s\":%" PRIu64, comma, action_letters[i], requests->actions[i]);
		comma = ",";
	}
	fputs("}}\n", out);
	return fflush(out) ? -1 : 0;
}
