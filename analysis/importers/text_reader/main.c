// SPDX-License-Identifier: BSD-2-Clause
/*
 * text-to-blktrace OUTPUT < TEXT
 *
 * Converts a block trace in text (perf script, ftrace's trace or trace_pipe, trace-cmd report, the blk tracer, blkparse,
 * biosnoop) to the binary stream of blktrace, which import-blktrace reads. It prints counts of events and of skipped
 * lines as JSON on standard output. It reads line by line, in bounded memory. Exit status: 0; 1 for an error of reading
 * or writing; 2 if the text has no event of a disk.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "events.h"
#include "lines.h"

static int complain(const char *subject, const char *why)
{
	fprintf(stderr, "seekmeter: %s: %s\n", subject, why);
	return 1;
}

static void say_disks(const struct biosnoop *biosnoop)
{
	fputs("\"disks\":[", stdout);
	for (unsigned int i = 0; i < biosnoop->disk_count; i++) {
		printf("%s{\"dev\":\"0:%u\",\"name\":\"", i ? "," : "", i + 1);
		for (const char *at = biosnoop->disks[i]; *at; at++)
			putchar(*at > ' ' && *at < 127 && *at != '"' && *at != '\\' ? *at : '?');
		fputs("\"}", stdout);
	}
	fputs("]", stdout);
}

static int say(const struct reader *reader)
{
	static const char *const names[FORMAT_COUNT] = {
		[FORMAT_PERF] = "perf script",	     [FORMAT_FTRACE] = "ftrace text",
		[FORMAT_BLK] = "text of blk tracer", [FORMAT_BLKPARSE] = "text of blkparse",
		[FORMAT_BIOSNOOP] = "biosnoop",
	};
	const struct counts *counts = &reader->counts;
	enum format most = FORMAT_PERF;

	for (enum format format = 0; format < FORMAT_COUNT; format++)
		if (counts->of_format[format] > counts->of_format[most])
			most = format;
	printf("{\"format\":\"%s\",\"bytes\":%" PRIu64 ",\"lines\":%" PRIu64
	       ",\"time_digits\":%u,\"latency_digits\":%u,\"other_events\":%" PRIu64
	       ",\"unreadable\":%" PRIu64 ",\"untimed\":%" PRIu64 ",\"no_device\":%" PRIu64
	       ",\"strange\":%" PRIu64 ",\"cut\":%" PRIu64 ",",
	       names[most], counts->bytes, counts->lines, reader->time_digits,
	       reader->biosnoop.latency_digits, counts->other_events, counts->unreadable,
	       counts->untimed, counts->no_device, counts->strange, counts->cut);
	say_disks(&reader->biosnoop);
	puts("}");
	return fflush(stdout) ? -1 : 0;
}

static int refuse(const struct counts *counts)
{
	const char *why = "it holds no event of a disk in any format known";

	if (counts->untimed)
		why = "its events have no times in seconds; record them with trace_clock=mono, or print them "
		      "with perf script -F +time";
	else if (counts->unreadable)
		why = "its events are not as the kernel prints them; print them without options";
	else if (counts->other_events)
		why = "it has events, but none of a disk; record block:*";
	complain("the trace", why);
	return 2;
}

static int translate(const char *path)
{
	struct reader reader;
	FILE *out = fopen(path, "we");
	int status = 0, error;

	if (!out)
		return complain(path, strerror(errno));
	if (reader_init(&reader, out)) {
		fclose(out);
		return complain("the trace can't be read", strerror(ENOMEM));
	}
	error = read_lines(STDIN_FILENO, &reader);
	if (error)
		status = complain("the trace can't be read", strerror(error));
	errno = 0;
	if ((ferror(out) | fclose(out)) && !status)
		status = complain("the trace can't be kept",
				  errno ? strerror(errno) : "the disk is full");
	if (!status && !reader.counts.events)
		status = refuse(&reader.counts);
	if (!status && say(&reader))
		status = complain("the facts can't be written", strerror(errno));
	reader_free(&reader);
	return status;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: text-to-blktrace OUTPUT < TEXT\n", stderr);
		return 2;
	}
	return translate(argv[1]);
}
