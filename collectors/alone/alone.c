// SPDX-License-Identifier: BSD-2-Clause
/* The recorder alone, without a session; see alone.h. */
#include "alone.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "alone/facts.h"
#include "alone/machine.h"
#include "recorder/clock.h"
#include "recorder/fail.h"
#include "recorder/options.h"
#include "recorder/registry.h"
#include "recorder/room.h"

#define PROGRESS_NS    (5 * NS_PER_SEC)
#define WRONG_OPTION   2
#define CANNOT_BE_DONE 3

static struct facts facts = { .state = "recording" };
static int out_fd = -1;
static uint64_t progress_ns;

/* Makes DIR, which must be new: what somebody else put there is never written into. */
static int make_directory(const char *out)
{
	char *parent_of = strdup(out), *name_of = strdup(out);
	const char *name = name_of ? basename(name_of) : "";
	struct stat status;
	int parent, err = -1;

	parent = parent_of ? open(dirname(parent_of), O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (parent < 0 || mkdirat(parent, name, 0700)) {
		fail(out,
		     errno == EEXIST ? "exists; give a new directory by --out" : strerror(errno));
	} else {
		out_fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (out_fd < 0 || fstat(out_fd, &status) || status.st_uid != geteuid() ||
		    status.st_mode & 077)
			fail(out,
			     "was replaced by another user; give a directory that only root can write");
		else
			err = 0;
	}
	if (parent >= 0)
		close(parent);
	free(parent_of);
	free(name_of);
	return err;
}

/* Copies a file of procfs into DIR. */
static void copy_file(const char *from, const char *name)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = new_file(out_fd, name);
	char data[16384];
	ssize_t bytes;

	while (in >= 0 && out >= 0 && (bytes = read(in, data, sizeof(data))) > 0)
		if (write(out, data, bytes) != bytes)
			break;
	if (in < 0 || out < 0)
		facts_warn(&facts, "%s could not be copied: %s", from, strerror(errno));
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
}

static void set_targets(struct options *options)
{
	unsigned int major, minor;

	for (int i = 0; i < facts.mounted.count && i < MAX_TARGETS; i++) {
		if (sscanf(facts.mounted.at[i].mount.dev, "%u:%u", &major, &minor) != 2)
			continue;
		if (!options->target_dev)
			options->target_dev = major << 20 | minor;
		else
			options->more_targets[options->more_target_count++] = major << 20 | minor;
	}
	if (facts.mounted.count > MAX_TARGETS)
		facts_warn(&facts, "%d file systems are mounted from %s: calls on %d are counted",
			   facts.mounted.count, facts.given, MAX_TARGETS);
}

static void warn_of_lacks(void)
{
	const struct device *watched = &facts.devices.at[facts.watched];
	char text[8];

	if (watched->is_partition)
		facts_warn(&facts, "%s is a part of %s: the whole of %s is shown", watched->name,
			   facts.devices.at[watched->disk].name,
			   facts.devices.at[watched->disk].name);
	if (text_of(text, sizeof(text), "/proc/sys/kernel/task_delayacct") && text[0] == '0')
		facts_warn(&facts,
			   "kernel.task_delayacct is 0: the table thread lacks delays of block "
			   "I/O (sysctl kernel.task_delayacct=1 before recording)");
	for (int i = 0; i < facts.layers.names.count; i++) {
		const char *why_not = layers_why_not(&facts.layers, facts.layers.names.at[i]);

		if (why_not[0] && strcmp(why_not, "below a loop device") != 0)
			facts_warn(&facts, "%s is not recorded: %s",
				   facts.devices.at[facts.layers.names.at[i]].name, why_not);
	}
}

/* Reads the kernel's and the machine's facts, once: they don't change. */
static bool read_machine(void)
{
	size_t bytes;
	FILE *out = open_memstream(&facts.machine, &bytes);

	if (!out)
		return false;
	machine_write(out);
	return fclose(out) == 0;
}

int alone_open(struct options *options)
{
	struct timespec now;

	facts.given = options->dev;
	if (geteuid() != 0) {
		fail("root rights", "missing; run it by sudo");
		return CANNOT_BE_DONE;
	}
	if (!devices_read(&facts.devices)) {
		fail("/sys/class/block", "has no devices; mount sysfs");
		return CANNOT_BE_DONE;
	}
	facts.watched = device_given(&facts.devices, options->dev);
	if (facts.watched < 0) {
		fail(options->dev, "no such block device; see lsblk");
		return WRONG_OPTION;
	}
	layers_choose(&facts.devices, facts.devices.at[facts.watched].disk, &facts.layers);
	if (layers_to_options(&facts.devices, &facts.layers, options))
		return CANNOT_BE_DONE;
	mounted_find(&facts.devices, facts.watched, &facts.mounted);
	facts_read_journals(&facts);
	set_targets(options);
	clock_gettime(CLOCK_REALTIME, &now);
	facts.realtime_offset_ns =
		(int64_t)(now.tv_sec * NS_PER_SEC + now.tv_nsec) - (int64_t)monotonic_ns();
	if (!read_machine()) {
		fail("memory", "too little is free");
		return CANNOT_BE_DONE;
	}
	if (make_directory(options->out))
		return WRONG_OPTION;
	if (mkdirat(out_fd, "recorder", 0700) ||
	    (options->out_fd = openat(out_fd, "recorder",
				      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0) {
		fail(options->out, strerror(errno));
		return 1;
	}
	warn_of_lacks();
	copy_file("/proc/self/mountinfo", "mountinfo");
	fprintf(stderr, "recorder: %s: attaching, which takes a few seconds\n", options->dev);
	return 0;
}

static void write_facts(const struct options *options)
{
	if (facts_write(&facts, options, out_fd))
		fprintf(stderr, "recorder: %s/alone.json cannot be written: %s; make room\n",
			options->out, strerror(errno));
}

void alone_begin(const struct options *options, uint64_t ready_ns)
{
	const struct collector_ops *ops;

	for_each_collector(ops) if (ops->state->wanted && !ops->state->on)
		fprintf(stderr, "recorder: %s is off: %s (%s)\n", ops->name, ops->state->off_reason,
			ops->state->remedy);
	facts.start_ns = progress_ns = ready_ns;
	counters_read(&facts, &facts.start);
	copy_file("/proc/diskstats", "diskstats-before");
	write_facts(options);
	fprintf(stderr, "recorder: %s: recording", options->dev);
	if (options->record_ns)
		fprintf(stderr, " for %g s", (double)options->record_ns / 1e9);
	fprintf(stderr, " (^C ends it%s)\n", options->record_ns ? " early" : "");
}

static unsigned long long lost_events(void)
{
	const struct collector_ops *ops;
	unsigned long long lost = 0;

	for_each_collector(ops) for (int i = 0; i < MAX_REASONS && ops->state->lost[i].name; i++)
		lost += ops->state->lost[i].count;
	return lost;
}

/* "12 s, 3456 requests, 1.2 MB written, nothing lost" */
static void print_state(uint64_t now_ns)
{
	const struct collector_ops *ops;
	unsigned long long requests = 0, lost = lost_events();

	for_each_collector(ops) if (!strcmp(ops->name, "block")) requests = ops->state->recorded;
	fprintf(stderr, "%.1f s, %llu requests, %.1f MB of tables, ",
		(double)(now_ns - facts.start_ns) / 1e9, requests,
		(double)room_state().taken_bytes / 1e6);
	if (lost)
		fprintf(stderr, "%llu events lost", lost);
	else
		fputs("nothing lost", stderr);
}

bool alone_goes_on(const struct options *options, uint64_t now_ns)
{
	if (options->record_ns && now_ns - facts.start_ns >= options->record_ns)
		facts.ended = "time";
	else if (!room_left())
		facts.ended = room_state().met;
	if (facts.ended)
		return false;
	if (now_ns - progress_ns >= PROGRESS_NS) {
		progress_ns = now_ns;
		fputs("recorder:   ", stderr);
		print_state(now_ns);
		fputc('\n', stderr);
	}
	return true;
}

void alone_before_end(void)
{
	counters_read(&facts, &facts.end);
	copy_file("/proc/diskstats", "diskstats-after");
	devices_read(&facts.devices_after);
}

static void say_why(const struct options *options)
{
	const struct room room = room_state();

	if (room.met && !strcmp(room.met, "size"))
		facts_warn(&facts,
			   "the recording ends early, after %.1f s: its tables have reached "
			   "%llu bytes (--max-bytes)",
			   (double)(facts.end_ns - facts.start_ns) / 1e9,
			   (unsigned long long)room.most_bytes);
	else if (room.met)
		facts_warn(&facts,
			   "the recording ends early, after %.1f s: the file system of %s has only "
			   "%llu bytes free",
			   (double)(facts.end_ns - facts.start_ns) / 1e9, options->out,
			   (unsigned long long)room.floor_bytes);
	else if (options->record_ns && !strcmp(facts.ended, "signal"))
		facts_warn(&facts, "ended early by a signal or ^C, after %.1f s",
			   (double)(facts.end_ns - facts.start_ns) / 1e9);
}

void alone_end(const struct options *options, uint64_t until_ns, bool any_on)
{
	const struct room room = room_state();
	const char *name = strrchr(options->out, '/');

	/* What came after the limit was met was only counted. */
	facts.end_ns = room.met && room.met_ns < until_ns ? room.met_ns : until_ns;
	facts.state = "complete";
	if (room.met)
		facts.ended = room.met;
	else if (!facts.ended)
		facts.ended = "signal";
	say_why(options);
	write_facts(options);
	if (!any_on) {
		fprintf(stderr, "recorder: nothing could be recorded: the reasons are above\n");
		return;
	}
	name = name && name[1] ? name + 1 : options->out;
	fprintf(stderr, "recorder: %s: done: ", options->dev);
	print_state(facts.end_ns);
	fprintf(stderr,
		"\nrecorder: next: tar czf %s.tar.gz -C %.*s %s; where Seekmeter is: make import TRACE=%s.tar.gz\n",
		name, name == options->out ? 1 : (int)(name - options->out),
		name == options->out ? "." : options->out, name, name);
}
