// SPDX-License-Identifier: BSD-2-Clause
/* What a watch follows; see followed.h. */
#include "followed.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
#define ZOMBIES_MOST  64 /* processes whose state is read each second */
#define ROUNDS_MOST   64 /* generations of a process's children */

static struct followed_bpf *skel;
static const char *path; /* of the cgroup */
static int cgroup_fd = -1;
static ino_t inode;
static int maps[MAPS_MOST], map_count;
static bool has_failed;
static uint64_t restarts, gone_ns, looked_ns, most_processes;

/* Puts a process into the map. Returns whether it is new there. */
static bool add(uint32_t tgid)
{
	uint8_t is_one = 1;

	return !bpf_map_update_elem(bpf_map__fd(skel->maps.followed_processes), &tgid, &is_one,
				    BPF_NOEXIST);
}

bool followed_has(uint32_t tgid)
{
	uint8_t is_one;

	return skel &&
	       !bpf_map_lookup_elem(bpf_map__fd(skel->maps.followed_processes), &tgid, &is_one);
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
		if (read_stat(entry->d_name, &state, &parent) && followed_has(parent) &&
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

int followed_open(struct options *options)
{
	if (options->follow_pid)
		return open_process(options);
	if (!options->follow_cgroup)
		return 0;
	path = options->follow_cgroup;
	if (open_cgroup())
		return fail(path, strerror(errno));
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

static void look_at_cgroup(uint64_t now_ns)
{
	struct stat status;
	uint32_t zero = 0;

	if (stat(path, &status)) {
		if (!gone_ns)
			gone_ns = now_ns;
		return;
	}
	if (status.st_ino != inode && !open_cgroup()) {
		restarts++;
		for (int i = 0; i < map_count; i++)
			if (bpf_map_update_elem(maps[i], &zero, &cgroup_fd, BPF_ANY))
				fail(path, strerror(errno));
	}
	gone_ns = 0;
}

static void look_at_processes(uint64_t now_ns)
{
	int fd = bpf_map__fd(skel->maps.followed_processes);
	uint32_t key, *before = NULL;
	uint64_t count = 0, zombies = 0;

	if (now_ns - looked_ns < LOOK_EVERY_NS)
		return;
	looked_ns = now_ns;
	while (count < FOLLOWED_PROCESSES && !bpf_map_get_next_key(fd, before, &key)) {
		before = &key;
		count++;
		if (count <= ZOMBIES_MOST)
			zombies += is_zombie(key);
	}
	if (count > most_processes)
		most_processes = count;
	if (count > zombies)
		gone_ns = 0;
	else if (!gone_ns)
		gone_ns = now_ns;
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
			",\"workload\":{\"processes_most\":%llu,\"gone_ns\":%llu,\"lost\":{\"no room for a child\":%llu}}",
			(unsigned long long)most_processes, (unsigned long long)gone_ns,
			(unsigned long long)skel->bss->followed_lost);
}

void followed_close(void)
{
	followed_bpf__destroy(skel);
	skel = NULL;
	if (cgroup_fd >= 0)
		close(cgroup_fd);
	cgroup_fd = -1;
}
