// SPDX-License-Identifier: BSD-2-Clause
/* Command-line options. main.c explains the options; disks.c reads what the disks among them are like. */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "disks.h"
#include "fail.h"
#include "registry.h"
#include "triggers.h"

#define RAM_BYTES	(256ULL << 20) /* of a ring, by default */
#define RAM_BYTES_LEAST (2ULL << 20)

/* Adds a file system under test: first the target, then further file systems on a watched device. */
static int add_target(struct options *options, const char *text)
{
	unsigned int major, minor;

	if (sscanf(text, "%u:%u", &major, &minor) != 2)
		return fail(text, "not MAJOR:MINOR");
	if (!options->target_dev) {
		options->target_dev = major << 20 | minor;
		return 0;
	}
	if (options->more_target_count == MAX_TARGETS - 1)
		return fail(text, "too many file systems; at most 256");
	options->more_targets[options->more_target_count++] = major << 20 | minor;
	return 0;
}

/* Parses a number of at most UINT64_MAX / 4, so that sums of such numbers do not overflow. */
static int parse_number(const char *text, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	return end == text || *end || *text == '-' || errno || *number > UINT64_MAX / 4 ? -1 : 0;
}

static int parse_seconds(const char *text, uint64_t *ns)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds > 0 && seconds <= 1e9))
		return -1;
	*ns = (uint64_t)(seconds * NS_PER_SEC);
	return 0;
}

/* The directory of the tables. Without a session it is made later, by alone_open(). */
static int open_out(struct options *options, bool facts)
{
	if (options->probe || options->list || options->version || options->unpack)
		return 0;
	if (!options->out)
		return fail("--out", "missing; give the directory the tables go to");
	if (facts != (options->dev != NULL))
		return fail(facts ? "--facts" : "--dev",
			    facts ? "needs --dev NAME, the device" : "needs --facts");
	if (options->dev && (options->disk_count || options->counted_count || options->borders))
		return fail("--dev", "finds the devices itself; leave the other options out");
	if (options->record_ns && !options->dev)
		return fail("--secs", "needs --dev NAME, the device");
	if (options->dev)
		return 0;
	options->out_fd = open(options->out, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return options->out_fd < 0 ? fail(options->out, strerror(errno)) : 0;
}

static int unknown_collector(const char *name)
{
	const struct collector_ops *ops;
	char message[512] = "no such collector; choose from ";
	size_t bytes = strlen(message);

	for_each_collector(ops) bytes += snprintf(message + bytes, sizeof(message) - bytes, "%s%s",
						  ops == registry_at(0) ? "" : ",", ops->name);
	return fail(name, message);
}

/* The collectors named in the list are wanted. */
static int choose_collectors(const char *list)
{
	const struct collector_ops *ops;
	char *copy = strdup(list), *rest = copy, *name;
	int err = copy ? 0 : -1;

	while (copy && !err && (name = strsep(&rest, ","))) {
		err = -1;
		for_each_collector(ops) if (!strcmp(ops->name, name))
		{
			ops->state->wanted = true;
			err = 0;
		}
		if (err)
			unknown_collector(name);
	}
	free(copy);
	return err;
}

/* Without --collect: those that are on by default; for a probe all. */
static void choose_default_collectors(bool probe)
{
	const struct collector_ops *ops;

	for_each_collector(ops) ops->state->wanted = probe || ops->on_by_default;
}

int options_parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{ "out", required_argument, NULL, 'o' },
		{ "disk", required_argument, NULL, 'd' },
		{ "hidden", required_argument, NULL, 'h' },
		{ "volume", required_argument, NULL, 'w' },
		{ "component", required_argument, NULL, 'e' },
		{ "counted", required_argument, NULL, 'n' },
		{ "cgroup", required_argument, NULL, 'g' },
		{ "memory-cgroup", required_argument, NULL, 'y' },
		{ "target-dev", required_argument, NULL, 't' },
		{ "target-path", required_argument, NULL, 'm' },
		{ "bin-ms", required_argument, NULL, 'b' },
		{ "collect", required_argument, NULL, 'c' },
		{ "borders", required_argument, NULL, 'r' },
		{ "owner", required_argument, NULL, 'u' },
		{ "addresses", no_argument, NULL, 'a' },
		{ "room-bytes", required_argument, NULL, 's' },
		{ "floor-bytes", required_argument, NULL, 'f' },
		{ "follow-cgroup", required_argument, NULL, 'j' },
		{ "follow-pid", required_argument, NULL, 'P' },
		{ "trigger", required_argument, NULL, 'i' },
		{ "ring", required_argument, NULL, 'k' },
		{ "ram-bytes", required_argument, NULL, 'R' },
		{ "after-ns", required_argument, NULL, 'A' },
		{ "gap-ns", required_argument, NULL, 'G' },
		{ "times", required_argument, NULL, 'T' },
		{ "dev", required_argument, NULL, 'D' },
		{ "secs", required_argument, NULL, 'S' },
		{ "facts", no_argument, NULL, 'F' },
		{ "max-bytes", required_argument, NULL, 's' },
		{ "version", no_argument, NULL, 'V' },
		{ "probe", no_argument, NULL, 'p' },
		{ "list", no_argument, NULL, 'l' },
		{ "unpack", required_argument, NULL, 'x' },
		{ "verbose", no_argument, NULL, 'v' },
		{ 0 },
	};
	const char *collect = NULL;
	bool facts = false;
	struct stat status;
	char *end;
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'o':
			options->out = optarg;
			break;
		case 'D':
			options->dev = optarg;
			break;
		case 'S':
			if (parse_seconds(optarg, &options->record_ns))
				return fail(optarg, "not a time; give seconds, such as 60");
			break;
		case 'F':
			facts = true;
			break;
		case 'V':
			options->version = true;
			break;
		case 'd':
			if (disks_add(options, optarg))
				return -1;
			break;
		case 'h':
			if (disks_add_hidden(options, optarg))
				return -1;
			break;
		case 'w':
			if (disks_add_volume(options, optarg))
				return -1;
			break;
		case 'e':
			if (disks_add_component(options, optarg))
				return -1;
			break;
		case 'n':
			if (disks_add_counted(options, optarg))
				return -1;
			break;
		case 'g':
			options->cgroup_fd = open(optarg, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
			if (options->cgroup_fd < 0)
				return fail(optarg, strerror(errno));
			break;
		case 'j':
			options->follow_cgroup = optarg;
			break;
		case 'P':
			options->follow_pid = strtoul(optarg, &end, 10);
			if (*end || !options->follow_pid)
				return fail(optarg, "not a process's number");
			break;
		case 'y':
			if (stat(optarg, &status))
				return fail(optarg, strerror(errno));
			options->memory_cgroup_id = status.st_ino;
			break;
		case 't':
			if (add_target(options, optarg))
				return -1;
			break;
		case 'm':
			options->target_path = optarg;
			break;
		case 'b':
			options->bin_ns = strtoul(optarg, &end, 10) * NS_PER_MS;
			if (*end || options->bin_ns < 10 * NS_PER_MS ||
			    options->bin_ns > 10000 * NS_PER_MS)
				return fail(optarg,
					    "not a bin length; give 10 to 10000 milliseconds");
			break;
		case 'c':
			collect = optarg;
			break;
		case 'r':
			options->borders = optarg;
			break;
		case 'u':
			options->owner = strtoul(optarg, &end, 10);
			if (*end || end == optarg)
				return fail(optarg, "not a user's number");
			break;
		case 'a':
			options->addresses = true;
			break;
		case 's':
			if (parse_number(optarg, &options->room_bytes) || !options->room_bytes)
				return fail(optarg, "not a size; give a number of bytes");
			break;
		case 'f':
			if (parse_number(optarg, &options->floor_bytes))
				return fail(optarg, "not a size; give a number of bytes");
			options->floor_given = true;
			break;
		case 'i':
			if (triggers_add_option(optarg))
				return -1;
			break;
		case 'k':
			if (parse_number(optarg, &options->ring_keep_ns) || !options->ring_keep_ns)
				return fail(optarg, "not a time; give a number of nanoseconds");
			break;
		case 'R':
			if (parse_number(optarg, &options->ram_bytes) ||
			    options->ram_bytes < RAM_BYTES_LEAST)
				return fail(optarg,
					    "not a size of a ring; give at least 2097152 bytes");
			break;
		case 'A':
			if (parse_number(optarg, &options->after_ns))
				return fail(optarg, "not a time; give a number of nanoseconds");
			break;
		case 'G':
			if (parse_number(optarg, &options->gap_ns))
				return fail(optarg, "not a time; give a number of nanoseconds");
			break;
		case 'T':
			if (parse_number(optarg, &options->times))
				return fail(optarg, "not a number of windows");
			break;
		case 'p':
			options->probe = true;
			break;
		case 'l':
			options->list = true;
			break;
		case 'x':
			options->unpack = optarg;
			break;
		case 'v':
			options->verbose = true;
			break;
		default:
			return -1;
		}
	}
	if (optind < argc)
		return fail(argv[optind], "unexpected argument");
	if (open_out(options, facts))
		return -1;
	if (options->ring_keep_ns && !options->ram_bytes)
		options->ram_bytes = RAM_BYTES;
	if (collect && choose_collectors(collect))
		return -1;
	if (!collect)
		choose_default_collectors(options->probe);
	return triggers_check();
}
