// SPDX-License-Identifier: BSD-2-Clause
/*
 * import-blktrace DIRECTORY FILE…
 *
 * Reads a block trace (blktrace's files of each CPU, or blkparse's binary dump) and writes block.rec (one record a
 * request to a device), plug.rec (one an unplug) and losses.json into the directory, and facts for run.json, as
 * JSON, to standard output.
 * Memory grows with the requests in flight, not with the trace. Exit status: 0; 1 for an error of reading or
 * writing; 2 if a file is no block trace, or no file has an event.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "events.h"
#include "output.h"
#include "requests.h"
#include "summary.h"

/* Events looked ahead, all files together: in a stream through a pipe a CPU's piece is some 10,000. */
#define WINDOW_EVENTS	   (1 << 17)
#define WINDOW_EVENTS_MIN  256
/* A file of one CPU is in order; two moments of one interrupt may not be. */
#define WINDOW_EVENTS_MANY 1024
#define PROGRESS_EVENTS	   (1 << 20)

/* Control characters in a file's name (ASCII's, and C1 in UTF-8) could command the terminal. */
static int complain(const char *subject, const char *why)
{
	fputs("seekmeter: ", stderr);
	for (const unsigned char *at = (const unsigned char *)subject; *at; at++) {
		if (*at < 0x20 || *at == 0x7f)
			fprintf(stderr, "\\x%02x", *at);
		else if (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0)
			fprintf(stderr, "\\x%02x", *++at);
		else
			fputc(*at, stderr);
	}
	fprintf(stderr, ": %s\n", why);
	return 1;
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now)
		       ? 0
		       : now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* Raises the limit on descriptors: one per file, and a machine may have more CPUs than the usual limit. */
static void allow_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		return; /* opening one too many will fail with a message */
}

/* Opens all files; those without an event are left out. Returns 0 or the exit status. */
static int open_all(struct stream *streams, size_t *count, char *const *paths, int path_count)
{
	size_t window = WINDOW_EVENTS;

	*count = 0;
	for (int i = 0; i < path_count; i++) {
		const char *why = NULL;

		switch (stream_open(&streams[*count], paths[i], &why)) {
		case OPEN_OK:
			streams[*count].index = i;
			++*count;
			break;
		case OPEN_EMPTY:
			stream_close(&streams[*count]);
			break;
		case OPEN_FOREIGN:
			stream_close(&streams[*count]);
			complain(paths[i], why);
			return 2;
		case OPEN_ERROR:
			return complain(paths[i], strerror(errno));
		}
	}
	if (*count > 1) {
		window = WINDOW_EVENTS / *count;
		window = window > WINDOW_EVENTS_MANY ? WINDOW_EVENTS_MANY : window;
		window = window < WINDOW_EVENTS_MIN ? WINDOW_EVENTS_MIN : window;
	}
	for (size_t i = 0; i < *count; i++)
		if (stream_prepare(&streams[i], window))
			return complain(streams[i].path, strerror(ENOMEM));
	return 0;
}

static uint64_t bytes_of(const struct stream *streams, size_t count)
{
	uint64_t bytes = 0;
	struct stat status;

	for (size_t i = 0; i < count; i++)
		if (!fstat(streams[i].fd, &status))
			bytes += status.st_size;
	return bytes;
}

static void progress(const struct stream *streams, size_t count, uint64_t total)
{
	uint64_t done = 0;

	for (size_t i = 0; i < count; i++)
		done += streams[i].counts.bytes;
	fprintf(stderr, "\rreading the trace: %3.0f %%", total ? 100.0 * done / total : 100.0);
}

/* Reads all events. Returns 0 or the exit status. */
static int read_all(struct stream *streams, size_t count, struct requests *requests)
{
	bool tell = isatty(STDERR_FILENO);
	uint64_t total = bytes_of(streams, count), read = 0;
	struct event *event;
	struct merge merge;
	int status = 0;

	if (merge_start(&merge, streams, count)) {
		free(merge.heap);
		return complain("the trace can't be read", strerror(errno ? errno : ENOMEM));
	}
	while ((event = merge_next(&merge))) {
		requests_event(requests, event);
		if (++read % PROGRESS_EVENTS)
			continue;
		if (tell)
			progress(streams, count, total);
		if (requests->error || requests->output->error)
			break;
	}
	if (!event && errno)
		status = complain("the trace can't be read", strerror(errno));
	else if (requests->error)
		status = complain("the trace can't be read", strerror(requests->error));
	if (tell && read >= PROGRESS_EVENTS)
		fputs("\r                         \r", stderr);
	free(merge.heap);
	return status;
}

static int import(int directory, struct stream *streams, size_t count)
{
	struct requests requests;
	struct output output;
	int status;

	if (output_open(&output, directory))
		return complain("the tables can't be written", strerror(errno));
	if (requests_init(&requests, &output))
		return complain("the trace can't be read", strerror(ENOMEM));
	status = read_all(streams, count, &requests);
	requests_end(&requests);
	if (output_close(&output) && !status)
		status = complain("the tables can't be written", strerror(errno));
	if (!status && !requests.events) {
		complain("the trace", "it holds no event of a disk");
		status = 2;
	}
	if (!status && summary_write_losses(directory, streams, count, &requests, cpu_ns()))
		status = complain("losses.json can't be written", strerror(errno));
	if (!status && summary_print_facts(stdout, streams, count, &requests))
		status = complain("the facts can't be written", strerror(errno));
	requests_free(&requests);
	return status;
}

int main(int argc, char **argv)
{
	struct stream *streams;
	size_t count = 0;
	int directory, status;

	if (argc < 3) {
		fputs("usage: import-blktrace DIRECTORY FILE...\n", stderr);
		return 2;
	}
	directory = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return complain(argv[1], strerror(errno));
	allow_files();
	streams = calloc(argc - 2, sizeof(*streams));
	if (!streams)
		return complain("the trace can't be read", strerror(ENOMEM));
	status = open_all(streams, &count, argv + 2, argc - 2);
	if (!status)
		status = import(directory, streams, count);
	for (size_t i = 0; i < count; i++)
		stream_close(&streams[i]);
	free(streams);
	if (close(directory) && !status)
		status = complain(argv[1], strerror(errno));
	return status;
}
