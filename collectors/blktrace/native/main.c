// SPDX-License-Identifier: BSD-2-Clause
/*
 * blk-tracer: writes the ring buffers of the kernel's blk tracer as files of blktrace.
 *
 *   blk-tracer TRACEFS FOLDER NAME:MAJOR:MINOR...
 *   blk-tracer --count FILE...    print how many events are in existing files
 *
 * It changes no setting: collectors/blktrace/collector.py sets and restores them all. It prints {"ready":true,...} when
 * every ring buffer and file is open. At the end of its standard input it reads the rest of the buffers, prints what it
 * saw and lost, and ends. Exit status 0, or 1 with a line on stderr.
 */
#include "blktrace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MAX_CPUS   4096
#define LOOK_MS	   20
#define PAGE_BYTES (1 << 20) /* the largest sub-buffer there can be */
#define MAX_PAGES  256	     /* read of one CPU before the next CPU's turn */
#define FLUSH_NS   1000000000LL

static int pipes[MAX_CPUS];
static int cpus, blk_type;
static uint64_t foreign; /* other tracers' events in the same buffers */
static unsigned char page[PAGE_BYTES] __attribute__((aligned(8)));

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "blk-tracer: %s: %s\n", what, why);
	return 1;
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int open_pipes(const char *tracefs)
{
	for (; cpus < MAX_CPUS; cpus++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/per_cpu/cpu%d/trace_pipe_raw", tracefs, cpus);
		pipes[cpus] = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (pipes[cpus] < 0)
			return cpus && errno == ENOENT ? 0 : fail(path, strerror(errno));
	}
	return 0;
}

static int open_disk(const char *folder, char *word)
{
	unsigned major, minor;
	char *at = strrchr(word, ':');

	while (at && at > word && *--at != ':')
		;
	if (!at || at == word || sscanf(at, ":%u:%u", &major, &minor) != 2)
		return fail(word, "is not NAME:MAJOR:MINOR");
	*at = '\0';
	if (files_open(folder, word, major << 20 | minor, cpus))
		return fail(folder, strerror(errno));
	return 0;
}

static void take_event(int cpu, uint64_t t_ns, const void *data, size_t bytes)
{
	uint16_t type = 0;

	if (bytes >= sizeof(type))
		memcpy(&type, data, sizeof(type)); /* trace_entry begins with it */
	if (type == blk_type)
		files_event(cpu, t_ns, data, bytes);
	else
		foreign++;
}

/* Reads one CPU's ring buffer. Returns 1 if there may be more, -1 if it can't be read any more. */
static int take_pages(int cpu)
{
	for (int i = 0; i < MAX_PAGES; i++) {
		ssize_t bytes = read(pipes[cpu], page, sizeof(page));

		if (bytes <= 0) {
			if (!bytes || errno == EAGAIN || errno == EINTR)
				return 0;
			fail("trace_pipe_raw", strerror(errno));
			return -1;
		}
		files_gap(cpu, page_missed(page, bytes));
		page_events(cpu, page, bytes, take_event);
	}
	return 1;
}

/* Reads all ring buffers in turn until each was seen empty. -1: one can't be read any more. */
static int read_buffers(void)
{
	int more;

	do {
		comms_read();
		more = 0;
		for (int cpu = 0; cpu < cpus; cpu++) {
			int taken = take_pages(cpu);

			if (taken < 0)
				return -1;
			more |= taken;
		}
	} while (more);
	return 0;
}

/* Events that found no room in the buffers, as the kernel counted since the tracer was turned on. */
static uint64_t ring_full(const char *tracefs)
{
	uint64_t lost = 0;

	for (int cpu = 0; cpu < cpus; cpu++) {
		char path[4096], line[128];
		unsigned long long number;
		FILE *stats;

		snprintf(path, sizeof(path), "%s/per_cpu/cpu%d/stats", tracefs, cpu);
		stats = fopen(path, "re");
		if (!stats)
			continue;
		while (fgets(line, sizeof(line), stats)) {
			if (sscanf(line, "overrun: %llu", &number) == 1 ||
			    sscanf(line, "commit overrun: %llu", &number) == 1 ||
			    sscanf(line, "dropped events: %llu", &number) == 1)
				lost += number;
		}
		fclose(stats);
	}
	return lost;
}

static void print_counts(uint64_t full)
{
	const struct file_counts *n = &file_counts;
	struct timespec cpu;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	printf("{\"seen\":%llu,\"recorded\":%llu,"
	       "\"lost\":{\"ring full\":%llu,\"disk full\":%llu,\"write failed\":%llu,\"malformed\":%llu},"
	       "\"notes\":{\"process names written in\":%llu,\"processes gone before their name was known\":%llu,"
	       "\"events of others in the buffers\":%llu,\"events of other disks\":%llu},"
	       "\"cpu_ns\":%llu}\n",
	       (unsigned long long)(n->recorded + full + n->disk_full + n->failed + n->malformed),
	       (unsigned long long)n->recorded, (unsigned long long)full,
	       (unsigned long long)n->disk_full, (unsigned long long)n->failed,
	       (unsigned long long)n->malformed, (unsigned long long)n->notes,
	       (unsigned long long)names_gone(), (unsigned long long)foreign,
	       (unsigned long long)n->other_dev,
	       (unsigned long long)(cpu.tv_sec * 1000000000ULL + cpu.tv_nsec));
	fflush(stdout);
}

/* Records until the end of standard input. -1: a ring buffer can't be read any more. */
static int run(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	long long flushed_ns = now_ns();

	for (;;) {
		int stopped = poll(&input, 1, LOOK_MS);

		if (read_buffers())
			return -1;
		if (stopped > 0)
			return 0;
		if (now_ns() - flushed_ns >= FLUSH_NS) {
			files_flush();
			flushed_ns = now_ns();
		}
	}
}

int main(int argc, char **argv)
{
	const char *why = "";
	int failed;

	if (argc > 1 && !strcmp(argv[1], "--count"))
		return count_files(argv + 2);
	if (argc < 4)
		return fail("usage", "blk-tracer TRACEFS FOLDER NAME:MAJOR:MINOR...");
	/* The pipe alone would not do: another child of the session may hold its other end. */
	if (prctl(PR_SET_PDEATHSIG, SIGTERM))
		return fail("prctl", strerror(errno));
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	/* A late reader loses events, and the work is little. Without the right to raise it, the priority stays. */
	(void)setpriority(PRIO_PROCESS, 0, -10);
	blk_type = kernel_blk_type(&why);
	if (blk_type < 0)
		return fail("blk tracer", why);
	if (open_pipes(argv[1]))
		return 1;
	if (names_open(cpus, cpus * (argc - 3)))
		return fail("names", strerror(errno));
	for (int i = 3; i < argc; i++) {
		if (open_disk(argv[2], argv[i]))
			return 1;
	}
	files_note_time();
	printf("{\"ready\":true,\"monotonic_ns\":%lld}\n", now_ns());
	fflush(stdout);
	failed = run();
	if (files_close())
		failed = 1;
	print_counts(ring_full(argv[1]));
	return failed ? 1 : 0;
}
