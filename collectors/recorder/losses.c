// SPDX-License-Identifier: BSD-2-Clause
/*
 * losses.json: what each source saw, recorded and lost, and what it cost.
 *
 * Rewritten every second by rename, so that after a kill -9 the run still says what it lost until then.
 */
#include "borders.h"
#include "recorder.h"
#include "room.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int source_off(struct source_state *state, const char *remedy, const char *why, ...)
{
	va_list args;

	va_start(args, why);
	vsnprintf(state->why, sizeof(state->why), why, args);
	va_end(args);
	snprintf(state->remedy, sizeof(state->remedy), "%s", remedy);
	state->on = false;
	return -1;
}

static struct reason *find_reason(struct reason *reasons, const char *name)
{
	for (int i = 0; i < MAX_REASONS; i++) {
		if (!reasons[i].name)
			reasons[i].name = name;
		if (!strcmp(reasons[i].name, name))
			return &reasons[i];
	}
	/* More reasons than room: better under a wrong name than not at all. */
	return &reasons[MAX_REASONS - 1];
}

void reason_add(struct reason *reasons, const char *name, uint64_t count)
{
	find_reason(reasons, name)->count += count;
}

void reason_set(struct reason *reasons, const char *name, uint64_t count)
{
	find_reason(reasons, name)->count = count;
}

void json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = *text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

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

/* Sums over the sampled windows; %.17g gives a double whole. */
static void write_cost(FILE *out, const struct bpf_cost *cost)
{
	fprintf(out,
		"\"sampled_runs\":%llu,\"sampled_ns\":%llu,\"sampled_ns_squared\":%.17g,"
		"\"sampled_ns_wall_ns\":%.17g",
		(unsigned long long)cost->runs, (unsigned long long)cost->ns, cost->ns_squared,
		cost->ns_wall_ns);
}

static void write_source(FILE *out, const struct source *source)
{
	const struct source_state *state = source->state;
	struct bpf_program *program;
	int programs = 0;

	fprintf(out, "\"%s\":{\"state\":\"%s\",\"why\":", source->name, state->on ? "on" : "off");
	json_string(out, state->why);
	fputs(",\"remedy\":", out);
	json_string(out, state->remedy);
	/* Events that skipped programs did not see were there to be seen. */
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

/* fd: where it is written to; closed then. */
static bool write_file(int fd, const char *text, size_t length)
{
	bool whole;

	if (fd < 0)
		return false;
	whole = pwrite(fd, text, length, 0) == (ssize_t)length && ftruncate(fd, length) == 0;
	return close(fd) == 0 && whole;
}

/* A half-written file must not replace a whole one. On a full disk the old one's own blocks take the new text. */
static void replace(int dir, const char *text, size_t length)
{
	if (write_file(new_file(dir, ".losses.json.new"), text, length) &&
	    !renameat(dir, ".losses.json.new", dir, "losses.json"))
		return;
	unlinkat(dir, ".losses.json.new", 0);
	write_file(openat(dir, "losses.json", O_WRONLY | O_NOFOLLOW | O_CLOEXEC), text, length);
}

static uint64_t cpu_ns(const struct rusage *usage)
{
	return (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000000ULL +
	       (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000ULL;
}

void losses_write(const struct options *options, const struct source *const *sources, int count,
		  const struct recorder_times *times, bool complete)
{
	const struct bpf_windows *windows = bpfstats_windows();
	struct rusage usage;
	bool first = true;
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return; /* the last one written stays; the session reports a recorder that could not finish it */
	fputs("{\"collectors\":{", out);
	for (int i = 0; i < count; i++) {
		if (!sources[i]->state->wanted)
			continue;
		if (!first)
			fputc(',', out);
		first = false;
		write_source(out, sources[i]);
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
	room_describe(out);
	fprintf(out, "},\"borders\":{\"made\":%llu,\"refused\":%llu},\"complete\":%s}\n",
		(unsigned long long)borders_made(), (unsigned long long)borders_refused(),
		complete ? "true" : "false");
	if (fclose(out) == 0)
		replace(options->out_fd, text, length);
	free(text);
}
