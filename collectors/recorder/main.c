// SPDX-License-Identifier: BSD-2-Clause
/*
 * The recorder: loads the sources, empties their buffers until told to stop, leaves whole tables behind.
 *
 *   recorder --out DIR [--disk NAME]… [--cgroup DIR] [--target-dev MAJOR:MINOR]… [--target-path DIR] [--bin-ms N]
 *            [--collect a,b] (default: all but holds) [--borders SOCKET [--owner UID]]
 *            [--room-bytes N] [--floor-bytes N] (see room.h) [--addresses]
 *   recorder --probe        load and attach each source for a moment, say what works, keep nothing
 *
 * A line "target MAJOR:MINOR" on standard input: the file system under test has that number from here on, and
 * {"retargeted":true} is printed: what is done from then on is counted so.
 * It prints one JSON line when everything is attached ({"ready": true, …}: recorded is from its monotonic_ns on) and
 * one when it is done ({"stopped": true, …}: until its monotonic_ns). It stops at
 * SIGTERM, SIGINT, or the end of standard input (whoever started it is gone); all BPF programs end with
 * the process, so even kill -9 leaves nothing behind in the kernel. Exit: 0, or 1 if nothing could be recorded.
 */
#include "recorder.h"

#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "time_bins.h"
#include "borders.h"
#include "locks/names/lock_names.h"
#include "refusal.h"
#include "room.h"

#define NS_PER_MS	1000000ULL
#define LOSSES_EVERY_NS 1000000000ULL
#define NICE		-15

/* holds first: attaching it takes longest, and what another source sees meanwhile nobody empties. */
const struct source *const sources[SOURCE_COUNT] = { &holds_source, &block_source, &locks_source,
						     &calls_source, &counters_source };

static volatile sig_atomic_t stopping;
static bool verbose;

static void on_signal(int number)
{
	(void)number;
	stopping = 1;
}

uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

bool emulated_cpus(void)
{
	return getenv("SEEKMETER_EMULATED_CPUS") != NULL;
}

uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* What the user needs of it goes to losses.json as why; the rest, the verifier's log, is for developers. */
static int hear_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	char *text;
	int bytes;

	if (level == LIBBPF_DEBUG)
		return 0;
	bytes = vasprintf(&text, format, args);
	if (bytes < 0)
		return 0;
	if (level == LIBBPF_WARN)
		refusal_hear(text);
	if (verbose)
		fputs(text, stderr);
	free(text);
	return bytes;
}

/* One JSON line: which sources are on, and why the others are not. */
static void announce(const char *what, uint64_t now_ns)
{
	printf("{\"%s\":true,\"monotonic_ns\":%llu,\"collectors\":{", what,
	       (unsigned long long)now_ns);
	for (int i = 0, written = 0; i < SOURCE_COUNT; i++) {
		const struct source_state *state = sources[i]->state;

		if (!state->wanted)
			continue;
		printf("%s\"%s\":{\"state\":\"%s\",\"why\":", written++ ? "," : "",
		       sources[i]->name, state->on ? "on" : "off");
		json_string(stdout, state->why);
		fputs(",\"remedy\":", stdout);
		json_string(stdout, state->remedy);
		putchar('}');
	}
	puts("}}");
	fflush(stdout);
}

static void drain_all(bool last)
{
	for (int i = 0; i < SOURCE_COUNT; i++) {
		uint64_t before = thread_cpu_ns();

		if (!sources[i]->state->on)
			continue;
		sources[i]->drain(last);
		sources[i]->state->drain_ns += thread_cpu_ns() - before;
	}
	stacks_flush();
	lock_names_work();
}

static void retarget(const char *line)
{
	unsigned int major, minor;

	if (sscanf(line, "target %u:%u", &major, &minor) != 2) {
		fail(line, "not understood; say target MAJOR:MINOR");
		return;
	}
	for (int i = 0; i < SOURCE_COUNT; i++)
		if (sources[i]->state->on && sources[i]->retarget)
			sources[i]->retarget(major << 20 | minor);
	puts("{\"retargeted\":true}");
	fflush(stdout);
}

/* What has come on standard input. False: it has ended. */
static bool hear(void)
{
	static char line[64];
	static size_t length;
	char byte;
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	do {
		if (read(STDIN_FILENO, &byte, 1) <= 0)
			return false;
		if (byte != '\n' && length < sizeof(line) - 1) {
			line[length++] = byte;
		} else {
			line[length] = 0;
			length = 0;
			retarget(line);
		}
	} while (poll(&input, 1, 0) > 0);
	return true;
}

static void record(const struct options *options, struct recorder_times *times)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t losses_ns = 0;

	while (!stopping) {
		uint64_t now = monotonic_ns();

		drain_all(false);
		bpfstats_tick(sources, SOURCE_COUNT, now);
		if (now - losses_ns > LOSSES_EVERY_NS) {
			times->until_ns = now;
			losses_write(options, sources, SOURCE_COUNT, times, false);
			losses_ns = now;
		}
		/* Sleep, and notice the end of whoever started us. */
		if (poll(&input, 1, DRAIN_MS) > 0 && !hear())
			stopping = 1;
	}
}

/*
 * Ends the recording. Returns when: everything was recorded until then. The counters' last samples come first, while
 * all else records still, as their first ones came last: what the disk counted between them is in the tables too.
 */
static uint64_t detach_all(void)
{
	uint64_t end_ns;

	if (counters_source.state->on)
		counters_source.detach();
	end_ns = monotonic_ns();
	for (int i = 0; i < SOURCE_COUNT; i++)
		if (sources[i] != &counters_source && sources[i]->state->on && sources[i]->detach)
			sources[i]->detach();
	return end_ns;
}

/* Sources want a directory for their tables; a probe's is thrown away. */
static int open_probe_dir(struct options *options, char *path)
{
	if (!mkdtemp(path))
		return fail(path, strerror(errno));
	options->out_fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (options->out_fd < 0) {
		rmdir(path);
		return fail(path, strerror(errno));
	}
	return 0;
}

static void remove_probe_dir(const struct options *options, const char *path)
{
	struct dirent *entry;
	DIR *dir = fdopendir(options->out_fd);

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	if (rmdir(path))
		fail(path, strerror(errno));
}

/* What was seen while other sources were being attached is left out, or in time bins of its own. Returns from when on. */
static uint64_t begin(void)
{
	uint64_t begin_ns;
	bool later;

	for (int i = 0; i < SOURCE_COUNT; i++)
		if (sources[i]->state->on && sources[i]->begin)
			sources[i]->begin();
	begin_ns = bins_cut(0, &later);
	/* Where it can't be cut, the first bin reaches back to before the start. */
	if (!begin_ns)
		return monotonic_ns();
	while (monotonic_ns() < begin_ns)
		;
	return begin_ns;
}

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
	sigaction(SIGXFSZ, &action,
		  NULL); /* a file size limit is an error to report, not a death */
}

/*
 * A little CPU, but in time: time bins not emptied within half a second are lost, however many threads the workload has.
 * Where the scheduler makes a group of each session, nice counts inside of ours alone, and the group's own against the
 * workload's (sched(7), autogroup); it is set if nobody else is in it.
 */
static void come_first(void)
{
	FILE *group;

	if (setpriority(PRIO_PROCESS, 0, NICE) && verbose)
		fprintf(stderr, "recorder: nice %d: %s\n", NICE, strerror(errno));
	if (getsid(0) != getpid())
		return;
	group = fopen("/proc/self/autogroup", "we");
	if (!group)
		return; /* this kernel makes none */
	if ((fprintf(group, "%d", NICE) < 0 || fflush(group)) && verbose)
		fprintf(stderr, "recorder: autogroup: %s\n", strerror(errno));
	fclose(group);
}

int main(int argc, char **argv)
{
	struct options options = { .out_fd = -1, .cgroup_fd = -1, .bin_ns = 100 * NS_PER_MS };
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	char probe_dir[] = "/tmp/seekmeter-probe-XXXXXX";
	struct recorder_times times = { 0 };
	uint64_t ready_ns = 0;
	int on = 0;

	if (options_parse(argc, argv, &options))
		return 2;
	verbose = options.verbose;
	bins_set_length(options.bin_ns);
	come_first();
	libbpf_set_print(hear_libbpf);
	catch_signals();
	/* Needed before Linux 5.11 only, and refused without CAP_SYS_RESOURCE: not fatal. */
	if (setrlimit(RLIMIT_MEMLOCK, &unlimited) && verbose)
		fprintf(stderr, "recorder: RLIMIT_MEMLOCK: %s\n", strerror(errno));
	if (options.probe && open_probe_dir(&options, probe_dir))
		return 1;
	room_open(&options);
	if (stacks_open(&options)) {
		fail("stack.jsonl", strerror(errno));
		return 1;
	}

	for (int i = 0; i < SOURCE_COUNT; i++) {
		/* The last source has its first samples when it starts: they belong to the recorded time. */
		ready_ns = i == SOURCE_COUNT - 1 && !options.probe ? begin() : monotonic_ns();
		refusal_forget();
		if (sources[i]->state->wanted && sources[i]->start(&options) == 0)
			on++;
	}
	/* What came in while other sources were being attached. */
	if (!options.probe)
		drain_all(false);
	if (!options.probe && borders_open(&options))
		return 1;
	announce(options.probe ? "probed" : "ready", ready_ns);
	if (!options.probe) {
		/* The thread of the borders has done nothing yet. */
		times.start_cpu_ns = thread_cpu_ns();
		if (on)
			record(&options, &times);
		borders_close();
		bpfstats_close(sources, SOURCE_COUNT);
		times.until_ns = detach_all();
		/*
		 * A program that was already running when it was detached may still be adding: the barrier
		 * waits for all of them (synchronize_rcu()). A kernel that has none leaves that gap of microseconds.
		 */
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) && verbose)
			fprintf(stderr, "recorder: membarrier: %s\n", strerror(errno));
		drain_all(true);
		bpfstats_stop(sources, SOURCE_COUNT);
		losses_write(&options, sources, SOURCE_COUNT, &times, true);
		announce("stopped", times.until_ns);
	}
	for (int i = SOURCE_COUNT - 1; i >= 0; i--)
		if (sources[i]->state->on)
			sources[i]->stop();
	stacks_close();
	if (options.probe)
		remove_probe_dir(&options, probe_dir);
	return on ? 0 : 1;
}
