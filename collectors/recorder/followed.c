// SPDX-License-Identifier: BSD-2-Clause
/* What a watch follows; see followed.h. */
#include "followed.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "options.h"

#include "common/followed_records.h"

#include "followed.skel.h"

#define MAPS_MOST     16 /* collectors with a map of the workload's cgroup */
#define LOOK_EVERY_NS NS_PER_SEC
#define ROUNDS_MOST   64 /* generations of a process's children */

static struct followed_bpf *skel;
static const char *path; /* of the cgroup */
static int cgroup_fd = -1;
static ino_t inode;
static int maps[MAPS_MOST], map_count;
static bool has_failed;
static char below_root[PATH_MAX]; /* of the cgroup: its path in /proc/PID/cgroup; "": none */
static uint64_t restarts, gone_ns, looked_ns, left_out;

/* Puts a process into the map. Returns whether it is new there. */
static bool add(uint32_t tgid)
{
	uint8_t is_one = 1;

	if (!bpf_map_update_elem(bpf_map__fd(skel->maps.followed_processes), &tgid, &is_one,
				 BPF_NOEXIST))
		return true;
	if (errno != EEXIST)
		left_out++;
	return false;
}

static bool has_process(uint32_t tgid)
{
	uint8_t is_one;

	return !bpf_map_lookup_elem(bpf_map__fd(skel->maps.followed_processes), &tgid, &is_one);
}

/* Whether a process is in the followed cgroup or below it now: the line "0::/PATH" of its cgroup file. */
static bool is_in_cgroup(uint32_t tgid)
{
	char name[48], line[PATH_MAX + 8];
	size_t length = strlen(below_root);
	bool is_in = false;
	FILE *in;

	snprintf(name, sizeof(name), "/proc/%u/cgroup", tgid);
	in = fopen(name, "re");
	while (in && fgets(line, sizeof(line), in)) {
		if (strncmp(line, "0::", 3))
			continue;
		line[strcspn(line, "\n")] = 0;
		is_in = !strncmp(line + 3, below_root, length) &&
			(!line[3 + length] || line[3 + length] == '/' || length == 1);
		break;
	}
	if (in)
		fclose(in);
	return is_in;
}

bool followed_has(uint32_t tgid)
{
	if (skel)
		return has_process(tgid);
	return below_root[0] && is_in_cgroup(tgid);
}

/* The state letter and the parent of a process, of proc(5)'s stat. False: there is none. */
static bool read_stat(const char *pid, char *state, uint32_t *parent)
{
	char name[64], text[512];
	const char *after;
	ssize_t length;
	int fd;

	if (snprintf(name, sizeof(name), "/proc/%s/stat", pid) >= (int)sizeof(name))
		return false;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return false;
	text[length] = 0;
	after = strrchr(text, ')'); /* the name may have blanks and parentheses */
	return after && sscanf(after, ") %c %u", state, parent) == 2;
}

/* Whether a process has ended, and only its parent has not noticed. */
static bool is_zombie(uint32_t pid)
{
	char text[16], state;
	uint32_t parent;

	snprintf(text, sizeof(text), "%u", pid);
	return !read_stat(text, &state, &parent) || state == 'Z' || state == 'X';
}

/* Adds the children of followed processes. Returns whether there was a new one. */
static bool add_children(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool is_more = false;
	uint32_t parent;
	char state;

	while (proc && (entry = readdir(proc))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if (read_stat(entry->d_name, &state, &parent) && has_process(parent) &&
		    add((uint32_t)strtoul(entry->d_name, NULL, 10)))
			is_more = true;
	}
	if (proc)
		closedir(proc);
	return is_more;
}

static int open_process(const struct options *options)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/%u", options->follow_pid);
	if (access(name, F_OK))
		return fail(name, "no such process to follow");
	skel = followed_bpf__open_and_load();
	if (!skel || followed_bpf__attach(skel))
		return fail("--follow-pid", "the kernel lets no BPF program see forks");
	/* From here on, children come by themselves; those that are there are found in /proc. */
	add(options->follow_pid);
	for (int round = 0; round < ROUNDS_MOST && add_children(); round++)
		;
	return 0;
}

/* Opens the directory that has the path now. 0: it is another than before. */
static int open_cgroup(void)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (fstat(fd, &status) || (cgroup_fd >= 0 && status.st_ino == inode)) {
		close(fd);
		return -1;
	}
	if (cgroup_fd >= 0)
		close(cgroup_fd);
	cgroup_fd = fd;
	inode = status.st_ino;
	return 0;
}

/* Finds the cgroup's path below the root of cgroup2, as /proc/PID/cgroup has it. */
static void find_below_root(void)
{
	char line[2 * PATH_MAX], point[PATH_MAX];
	FILE *in = fopen("/proc/self/mountinfo", "re");
	size_t length;

	while (in && fgets(line, sizeof(line), in)) {
		if (!strstr(line, " - cgroup2 ") ||
		    sscanf(line, "%*s %*s %*s %*s %4095s", point) != 1)
			continue;
		length = strlen(point);
		if (strncmp(path, point, length) || (path[length] && path[length] != '/'))
			continue;
		snprintf(below_root, sizeof(below_root), "%s", path[length] ? path + length : "/");
		break;
	}
	if (in)
		fclose(in);
}

int followed_open(struct options *options)
{
	if (options->follow_pid)
		return open_process(options);
	if (!options->follow_cgroup)
		return 0;
	path = options->follow_cgroup;
	if (open_cgroup())
		return fail(path, strerror(errno));
	find_below_root();
	options->cgroup_fd = cgroup_fd;
	return 0;
}

bool followed_share(const struct options *options, struct bpf_map *map)
{
	if (!options->follow_pid)
		return false;
	if (bpf_map__reuse_fd(map, bpf_map__fd(skel->maps.followed_processes)))
		has_failed = true;
	return true;
}

bool followed_failed(void)
{
	return has_failed;
}

void followed_note_map(int fd)
{
	if (map_count < MAPS_MOST)
		maps[map_count++] = fd;
}

/* Whether a process is in the cgroup or below it (cgroup.events). A kernel without that file: yes. */
static bool is_populated(void)
{
	char text[256];
	int fd = openat(cgroup_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (length <= 0)
		return true;
	text[length] = 0;
	return !strstr(text, "populated 0");
}

static void note_gone(bool is_there, uint64_t now_ns)
{
	if (is_there)
		gone_ns = 0;
	else if (!gone_ns)
		gone_ns = now_ns;
}

static void look_at_cgroup(uint64_t now_ns)
{
	struct stat status;
	uint32_t zero = 0;

	if (stat(path, &status)) {
		note_gone(false, now_ns);
		return;
	}
	if (status.st_ino != inode && !open_cgroup()) {
		restarts++;
		for (int i = 0; i < map_count; i++)
			if (bpf_map_update_elem(maps[i], &zero, &cgroup_fd, BPF_ANY))
				fail(path, strerror(errno));
	}
	if (now_ns - looked_ns < LOOK_EVERY_NS)
		return;
	looked_ns = now_ns;
	note_gone(is_populated(), now_ns);
}

/* Looks for one that runs: usually the first. */
static void look_at_processes(uint64_t now_ns)
{
	int fd = bpf_map__fd(skel->maps.followed_processes);
	uint32_t key, *before = NULL;
	bool is_there = false;

	if (now_ns - looked_ns < LOOK_EVERY_NS)
		return;
	looked_ns = now_ns;
	for (int i = 0; i < FOLLOWED_PROCESSES && !is_there; i++) {
		if (bpf_map_get_next_key(fd, before, &key))
			break;
		before = &key;
		is_there = !is_zombie(key);
	}
	note_gone(is_there, now_ns);
}

void followed_tick(uint64_t now_ns)
{
	if (path)
		look_at_cgroup(now_ns);
	else if (skel)
		look_at_processes(now_ns);
}

void followed_write(FILE *out)
{
	if (path)
		fprintf(out, ",\"workload\":{\"restarts\":%llu,\"gone_ns\":%llu}",
			(unsigned long long)restarts, (unsigned long long)gone_ns);
	else if (skel)
		fprintf(out,
			",\"workload\":{\"gone_ns\":%llu,\"lost\":{\"no room for a process\":%llu}}",
			(unsigned long long)gone_ns,
			(unsigned long long)(skel->bss->followed_lost + left_out));
}

void followed_close(void)
{
	followed_bpf__destroy(skel);
	skel = NULL;
	if (cgroup_fd >= 0)
		close(cgroup_fd);
	cgroup_fd = -1;
}
