// SPDX-License-Identifier: BSD-2-Clause
/*
 * The recorder: attaches the collectors, empties their buffers until it is stopped, and writes their tables.
 *
 *   recorder --out DIR [--disk NAME]… [--hidden 4095:N=NAME]… [--volume NAME]… [--component MAJOR:MINOR]…
 *            [--counted NAME]… (disks.h explains these) [--cgroup DIR] [--memory-cgroup DIR]
 *            [--target-dev MAJOR:MINOR]… [--target-path DIR] [--bin-ms N]
 *            [--collect a,b] (default: the collectors that are on by default)
 *            [--follow-cgroup DIR | --follow-pid N] (followed.h)
 *            [--ring KEEP_NS [--ram-bytes N] [--after-ns N] [--gap-ns N] [--times N]] (ring.h)
 *            [--borders SOCKET [--owner UID]] [--room-bytes N] [--floor-bytes N] (room.h) [--addresses] [--verbose]
 *            [--trigger SPEC[=SHOWN]]… (triggers.h)
 *   recorder --dev NAME --facts [--secs N] [--max-bytes N] --out DIR   without a session: alone/alone.h
 *   recorder --probe   load and attach each collector for a moment, print what works, keep nothing
 *   recorder --unpack FILE.rec   print the table (-: of standard input) unpacked, as SKMREC01
 *   recorder --version print the version
 *   recorder --list    print one JSON line per collector: {"name": …, "default": true|false, "order": N}
 *
 * It prints one JSON line when everything is attached ({"ready": true, …}: events are recorded from its monotonic_ns
 * on), and one when it is done ({"stopped": true, …}: until its monotonic_ns). A line "target MAJOR:MINOR" on standard
 * input sets the device number of the file system under test; the answer is {"retargeted":true}.
 *
 * SIGTERM, SIGINT and the end of standard input (the session is gone) stop it. All BPF programs end with the process,
 * so even kill -9 leaves nothing behind in the kernel. Exit status: 0; 1 if nothing could be recorded; 2 for a wrong
 * option; 3 if a trigger can't work on this machine or, without a session, if this machine or user cannot record.
 */
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alone/alone.h"
#include "alone/version.h"
#include "borders.h"
#include "bpfstats.h"
#include "clock.h"
#include "completion.h"
#include "fail.h"
#include "followed.h"
#include "functions.h"
#include "jsonl.h"
#include "losses.h"
#include "options.h"
#include "rec_file.h"
#include "rec_unpack.h"
#include "refusal.h"
#include "registry.h"
#include "ring.h"
#include "room.h"
#include "stacks.h"
#include "task_context.h"
#include "time_bins.h"
#include "triggers.h"

/* With the time until the next drain, less than a second: so much a killed recorder may lose. */
#define LOSSES_EVERY_NS (900 * NS_PER_MS)
#define NICE		-15

static volatile sig_atomic_t stopping;
static bool verbose;

static void on_signal(int number)
{
	(void)number;
	stopping = 1;
}

/* The decisive line of a warning becomes the off_reason; the rest, the verifier's log, is for developers. */
static int log_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
	char *text;
	int bytes;

	if (level == LIBBPF_DEBUG)
		return 0;
	bytes = vasprintf(&text, format, args);
	if (bytes < 0)
		return 0;
	if (level == LIBBPF_WARN)
		refusal_note(text);
	if (verbose)
		fputs(text, stderr);
	free(text);
	return bytes;
}

static void list_collectors(void)
{
	const struct collector_ops *ops;

	for_each_collector(ops) printf("{\"name\":\"%s\",\"default\":%s,\"order\":%d}\n", ops->name,
				       ops->on_by_default ? "true" : "false", ops->order);
}

/* Prints one JSON line: which collectors are on, and why the others are off. */
static void announce(const char *event, uint64_t now_ns)
{
	const struct collector_ops *ops;
	const char *separator = "";

	printf("{\"%s\":true,\"monotonic_ns\":%llu,\"collectors\":{", event,
	       (unsigned long long)now_ns);
	for_each_collector(ops)
	{
		const struct collector_state *state = ops->state;

		if (!state->wanted)
			continue;
		printf("%s\"%s\":{\"state\":\"%s\",\"why\":", separator, ops->name,
		       state->on ? "on" : "off");
		separator = ",";
		json_string(stdout, state->off_reason);
		fputs(",\"remedy\":", stdout);
		json_string(stdout, state->remedy);
		putchar('}');
	}
	puts("}}");
	fflush(stdout);
}

static void drain_all(bool last)
{
	const struct collector_ops *ops;

	for_each_collector(ops)
	{
		uint64_t before = thread_cpu_ns();

		if (!ops->state->on)
			continue;
		ops->drain(last);
		ops->state->drain_ns += thread_cpu_ns() - before;
	}
	stacks_flush();
	functions_flush();
	registry_do_idle_work();
}

static void retarget(const char *command)
{
	const struct collector_ops *ops;
	unsigned int major, minor;

	if (sscanf(command, "target %u:%u", &major, &minor) != 2) {
		fail(command, "unknown command; the only one is: target MAJOR:MINOR");
		return;
	}
	for_each_collector(ops) if (ops->state->on && ops->retarget)
		ops->retarget(major << 20 | minor);
	puts("{\"retargeted\":true}");
	fflush(stdout);
}

/* Reads commands from standard input. Returns false at end of file. */
static bool read_commands(void)
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

static void drain_now(void)
{
	drain_all(false);
}

static void record(const struct options *options, struct recorder_times *times)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t losses_ns = 0;

	while (!stopping) {
		uint64_t now = monotonic_ns();

		drain_all(false);
		followed_tick(now);
		triggers_tick(now);
		bpfstats_tick(now);
		if (now - losses_ns > LOSSES_EVERY_NS) {
			times->until_ns = now;
			rec_files_flush(); /* losses.json counts what is in the files */
			losses_write(options, times, false);
			losses_ns = now;
		}
		if (!ring_tick(now))
			stopping = 1;
		if (options->dev) {
			if (!alone_goes_on(options, now))
				break;
			poll(NULL, 0, DRAIN_MS);
			continue;
		}
		/* Sleeps, but wakes when the session's end of standard input is closed. */
		if (poll(&input, 1, DRAIN_MS) > 0 && !read_commands())
			stopping = 1;
	}
	triggers_tick(monotonic_ns()); /* a signal may have come just before the stop */
}

static bool start(const struct collector_ops *ops, const struct options *options)
{
	if (!ops->state->wanted)
		return false;
	refusal_forget();
	if (ops->open(options) || ops->attach()) {
		ops->close();
		return false;
	}
	ops->state->on = true;
	return true;
}

/*
 * Begins the recording; returns the moment. Events seen while other collectors were being attached are dropped
 * (begin()), or end up in time bins of their own, which the cut ends.
 */
static uint64_t begin(void)
{
	const struct collector_ops *ops;
	uint64_t begin_ns;
	bool later;

	for_each_collector(ops) if (ops->state->on && ops->begin) ops->begin();
	begin_ns = bins_cut(0, &later);
	/* Without a cut, the first bin reaches back to before the start. */
	if (!begin_ns)
		return monotonic_ns();
	while (monotonic_ns() < begin_ns)
		;
	return begin_ns;
}

/* Starts the collectors; returns how many are on. *ready_ns: all events are recorded from then on. */
static int start_all(const struct options *options, uint64_t *ready_ns)
{
	const struct collector_ops *ops;
	int on = 0;

	for_each_collector(ops) if (!ops->reads_totals) on += start(ops, options);
	*ready_ns = options->probe ? monotonic_ns() : begin();
	/* The first samples of totals belong to the recorded time. */
	for_each_collector(ops) if (ops->reads_totals) on += start(ops, options);
	return on;
}

/*
 * Ends the recording; returns the moment. Totals are read for the last time before that, while all other collectors
 * still record, as they were read for the first time after the begin.
 */
static uint64_t detach_all(void)
{
	const struct collector_ops *ops;
	uint64_t end_ns;

	for_each_collector(ops) if (ops->reads_totals && ops->state->on && ops->detach)
		ops->detach();
	end_ns = monotonic_ns();
	for_each_collector(ops) if (!ops->reads_totals && ops->state->on && ops->detach)
		ops->detach();
	/*
	 * A program that was running when it was detached may still be adding: the barrier waits for it
	 * (synchronize_rcu()). A kernel without this barrier leaves a gap of microseconds.
	 */
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) && verbose)
		fprintf(stderr, "recorder: membarrier: %s\n", strerror(errno));
	return end_ns;
}

static void close_all(void)
{
	int last = 0;

	while (registry_at(last))
		last++;
	while (last--)
		if (registry_at(last)->state->on)
			registry_at(last)->close();
}

/* A probe's collectors want a directory for their tables too: a temporary one. */
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

static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
	/* A limit on file size is an error to report, not a death. */
	sigaction(SIGXFSZ, &action, NULL);
}

/*
 * Raises the recorder's priority. It needs little CPU time, but in time: time bins not emptied within half a second are
 * lost, however many threads the workload has. Where the scheduler groups each session (sched(7), autogroup), nice
 * weighs only within the group, and the group's own nice against the workload's; this one is set if the group is ours.
 */
static void raise_priority(void)
{
	FILE *group;

	if (setpriority(PRIO_PROCESS, 0, NICE) && verbose)
		fprintf(stderr, "recorder: nice %d: %s\n", NICE, strerror(errno));
	if (getsid(0) != getpid())
		return;
	group = fopen("/proc/self/autogroup", "we");
	if (!group)
		return; /* no CONFIG_SCHED_AUTOGROUP */
	if ((fprintf(group, "%d", NICE) < 0 || fflush(group)) && verbose)
		fprintf(stderr, "recorder: autogroup: %s\n", strerror(errno));
	fclose(group);
}

/* Records until stopped, and writes all remaining events to the tables. */
static uint64_t run(const struct options *options, bool any_on)
{
	struct recorder_times times = { 0 };

	/* The borders thread has used no CPU time yet. */
	times.start_cpu_ns = thread_cpu_ns();
	if (any_on)
		record(options, &times);
	if (options->dev)
		alone_before_end();
	borders_close();
	bpfstats_close();
	times.until_ns = detach_all();
	drain_all(true);
	rec_files_flush();
	bpfstats_stop();
	losses_write(options, &times, true);
	if (options->dev)
		alone_end(options, times.until_ns, any_on);
	else
		announce("stopped", times.until_ns);
	return times.until_ns;
}

int main(int argc, char **argv)
{
	struct options options = { .out_fd = -1, .cgroup_fd = -1, .bin_ns = 100 * NS_PER_MS };
	struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
	char probe_dir[] = "/tmp/seekmeter-probe-XXXXXX";
	uint64_t ready_ns = 0, until_ns = 0;
	int on, status;

	if (options_parse(argc, argv, &options))
		return 2;
	if (options.list) {
		list_collectors();
		return 0;
	}
	if (options.unpack)
		return rec_unpack(options.unpack) ? 1 : 0;
	if (options.version) {
		printf("recorder %s\n", recorder_version);
		return 0;
	}
	if (options.dev) {
		int status = alone_open(&options);

		if (status)
			return status;
	}
	verbose = options.verbose;
	bins_set_length(options.bin_ns);
	raise_priority();
	libbpf_set_print(log_libbpf);
	catch_signals();
	/* Needed before Linux 5.11 only, and refused without CAP_SYS_RESOURCE: not fatal. */
	if (setrlimit(RLIMIT_MEMLOCK, &unlimited) && verbose)
		fprintf(stderr, "recorder: RLIMIT_MEMLOCK: %s\n", strerror(errno));
	if (options.probe && open_probe_dir(&options, probe_dir))
		return 1;
	options.whole_fd = options.segment_fd = options.out_fd;
	if (ring_open(&options) || followed_open(&options))
		return 1;
	room_open(&options);
	if (stacks_open(&options)) {
		fail("stack.jsonl", strerror(errno));
		return 1;
	}
	if (functions_open(&options)) {
		fail("function.jsonl", strerror(errno));
		return 1;
	}

	on = start_all(&options, &ready_ns);
	status = on ? 0 : 1;
	if (followed_failed()) {
		fail("--follow-pid", "a collector could not get the followed processes");
		return 1;
	}
	if (options.probe) {
		announce("probed", ready_ns);
	} else if (triggers_start()) {
		status = 3;
	} else {
		/* Buffers have filled while the collectors were being attached. */
		drain_all(false);
		if (borders_open(&options))
			return 1;
		ring_begin(ready_ns, drain_now);
		if (options.dev)
			alone_begin(&options, ready_ns);
		else
			announce("ready", ready_ns);
		until_ns = run(&options, on > 0);
	}
	triggers_close();
	close_all();
	task_context_close();
	followed_close();
	completion_close();
	functions_close(); /* may need the symbols, which go with the stacks */
	stacks_close();
	ring_end(until_ns);
	if (options.probe)
		remove_probe_dir(&options, probe_dir);
	if (options.dev && !on)
		return 3;
	return status;
}
