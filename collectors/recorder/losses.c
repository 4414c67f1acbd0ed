// SPDX-License-Identifier: BSD-2-Clause
/*
 * losses.json: what each collector saw, recorded and lost, and what it cost.
 *
 * The file is replaced every second by renaming a new file: after a kill -9 the run still has its losses up to then.
 */
#include "losses.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "borders.h"
#include "bpfstats.h"
#include "followed.h"
#include "jsonl.h"
#include "options.h"
#include "registry.h"
#include "room.h"

static void write_reasons(FILE *out, const char *key, const struct reason *reasons)
{
	fprintf(out, "\"%s\":{", key);
	for (int i = 0; i < MAX_REASONS && reasons[i].name; i++) {
		if (i)
			fputc(',', out);
		json_string(out, reasons[i].name);
		fprintf(out, ":%llu", (unsigned long long)reasons[i].count);
	}
	fputc('}', out);
}

/* Writes the sums over the sampled windows; %.17g keeps all digits of a double. */
static void write_cost(FILE *out, const struct bpf_cost *cost)
{
	fprintf(out,
		"\"sampled_runs\":%llu,\"sampled_ns\":%llu,\"sampled_ns_squared\":%.17g,"
		"\"sampled_ns_wall_ns\":%.17g",
		(unsigned long long)cost->runs, (unsigned long long)cost->ns, cost->ns_squared,
		cost->ns_wall_ns);
}

static void write_collector(FILE *out, const struct collector_ops *ops)
{
	const struct collector_state *state = ops->state;
	struct bpf_program *program;
	int programs = 0;

	fprintf(out, "\"%s\":{\"state\":\"%s\",\"why\":", ops->name, state->on ? "on" : "off");
	json_string(out, state->off_reason);
	fputs(",\"remedy\":", out);
	json_string(out, state->remedy);
	/* Events that skipped programs missed count as seen. */
	fprintf(out, ",\"seen\":%llu,\"recorded\":%llu,",
		(unsigned long long)(state->seen + state->skipped),
		(unsigned long long)state->recorded);
	write_reasons(out, "lost", state->lost);
	fputc(',', out);
	write_reasons(out, "notes", state->notes);
	if (state->object)
		bpf_object__for_each_program(program, state->object)
			programs += bpf_program__fd(program) >= 0;
	fprintf(out, ",\"bpf\":{\"programs\":%d,\"recursion_misses\":%llu,", programs,
		(unsigned long long)state->recursion_misses);
	write_cost(out, &state->cost);
	fprintf(out, "},\"cpu_ns\":%llu}", (unsigned long long)state->drain_ns);
}

static uint64_t cpu_ns(const struct rusage *usage)
{
	return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000000ULL +
	       (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000ULL;
}

static void write_room(FILE *out)
{
	struct room room = room_state();

	fputs("\"room\":{\"met\":", out);
	if (room.met)
		json_string(out, room.met);
	else
		fputs("null", out);
	fprintf(out,
		",\"met_ns\":%llu,\"most_bytes\":%llu,\"floor_bytes\":%llu,\"taken_bytes\":%llu}",
		(unsigned long long)room.met_ns, (unsigned long long)room.most_bytes,
		(unsigned long long)room.floor_bytes, (unsigned long long)room.taken_bytes);
}

void losses_write_counts(FILE *out)
{
	const struct collector_ops *ops;
	const char *separator = "";

	fputc('{', out);
	for_each_collector(ops)
	{
		const struct collector_state *state = ops->state;

		if (!state->wanted)
			continue;
		fprintf(out, "%s\"%s\":{\"seen\":%llu,\"recorded\":%llu,", separator, ops->name,
			(unsigned long long)(state->seen + state->skipped),
			(unsigned long long)state->recorded);
		separator = ",";
		write_reasons(out, "lost", state->lost);
		fputc('}', out);
	}
	fputc('}', out);
}

void losses_write(const struct options *options, const struct recorder_times *times, bool complete)
{
	const struct collector_ops *ops;
	const struct bpf_windows *windows = bpfstats_windows();
	struct rusage usage;
	const char *separator = "";
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return; /* the last one written stays, incomplete: the session reports that */
	fputs("{\"collectors\":{", out);
	for_each_collector(ops)
	{
		if (!ops->state->wanted)
			continue;
		fputs(separator, out);
		separator = ",";
		write_collector(out, ops);
	}
	if (getrusage(RUSAGE_SELF, &usage))
		memset(&usage, 0, sizeof(usage));
	fprintf(out,
		"},\"recorder\":{\"cpu_ns\":%llu,\"start_cpu_ns\":%llu,\"max_rss_bytes\":%llu,"
		"\"until_ns\":%llu,\"bpf\":{\"windows\":%llu,\"wall_ns\":%llu,\"wall_ns_squared\":%.17g,",
		(unsigned long long)cpu_ns(&usage), (unsigned long long)times->start_cpu_ns,
		(unsigned long long)usage.ru_maxrss * 1024, (unsigned long long)times->until_ns,
		(unsigned long long)windows->count, (unsigned long long)windows->wall_ns,
		windows->wall_ns_squared);
	write_cost(out, &windows->all);
	fputs("},", out);
	write_room(out);
	followed_write(out);
	fprintf(out, "},\"borders\":{\"made\":%llu,\"refused\":%llu},\"complete\":%s}\n",
		(unsigned long long)borders_made(), (unsigned long long)borders_refused(),
		complete ? "true" : "false");
	if (fclose(out) == 0)
		(void)replace_file(options->out_fd, "losses.json", text, length);
	free(text);
}
