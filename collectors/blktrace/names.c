// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names of the threads that are seen in the stream.
 *
 * Asked of /proc when a thread is first seen, some ms after its event; who is gone by then may be in the tracer's
 * own list of recent names (saved_cmdlines), read after the events were. A name is asked again after a second: pids
 * are used again, and programs begin with the name of the shell that started them.
 */
#include "blktrace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_NS 1000000000ULL

static struct name *table;
static size_t size, count; /* size: a power of two */
static uint64_t gone;
static char saved_path[4096];
static char *saved;	      /* saved_cmdlines as last read: "PID COMM" lines */
static bool saved_is_older;   /* than events that were read since */
#define SAVED_BYTES (1 << 20) /* 32768 names */

int names_open(const char *tracefs)
{
	size = 1024;
	table = calloc(size, sizeof(*table));
	saved = calloc(1, SAVED_BYTES);
	saved_is_older = true;
	snprintf(saved_path, sizeof(saved_path), "%s/saved_cmdlines", tracefs);
	return table && saved ? 0 : -1;
}

void names_new_events(void)
{
	saved_is_older = true;
}

uint64_t names_gone(void)
{
	return gone;
}

/* Returns how many bytes of a small file were read, ended by NUL; -1 if it is not there. */
static ssize_t read_text(const char *path, char *text, size_t bytes)
{
	ssize_t done = 0, more;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while ((more = read(fd, text + done, bytes - 1 - done)) > 0)
		done += more;
	text[done] = '\0';
	close(fd);
	return done;
}

static bool ask_proc(uint32_t pid, char *comm)
{
	char path[64];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	bytes = read_text(path, comm, COMM_BYTES + 1);
	if (bytes <= 0)
		return false;
	if (comm[bytes - 1] == '\n')
		comm[bytes - 1] = '\0';
	return true;
}

static bool ask_tracer(uint32_t pid, char *comm)
{
	char key[16], *line;
	size_t length = snprintf(key, sizeof(key), "%u ", pid);

	if (saved_is_older) {
		saved_is_older = false;
		if (read_text(saved_path, saved, SAVED_BYTES) < 0)
			saved[0] = '\0';
	}
	for (line = saved; line && *line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (!strncmp(line, key, length)) {
			size_t bytes = strcspn(line + length, "\n");

			if (bytes >= COMM_BYTES)
				bytes = COMM_BYTES - 1;
			memcpy(comm, line + length, bytes);
			comm[bytes] = '\0';
			return bytes && strcmp(comm, "<...>");
		}
	}
	return false;
}

static struct name *find(struct name *in, size_t in_size, uint32_t pid)
{
	size_t at = pid * 2654435761U & (in_size - 1);

	while (in[at].used && in[at].pid != pid)
		at = (at + 1) & (in_size - 1);
	return &in[at];
}

static int grow(void)
{
	struct name *larger = calloc(size * 2, sizeof(*larger));

	if (!larger)
		return -1;
	for (size_t i = 0; i < size; i++) {
		if (table[i].used)
			*find(larger, size * 2, table[i].pid) = table[i];
	}
	free(table);
	table = larger;
	size *= 2;
	return 0;
}

static void look(struct name *name, int cpu, uint64_t t_ns)
{
	char comm[COMM_BYTES + 1] = "";
	bool found = true;

	name->looked_ns = t_ns;
	if (!name->pid)
		snprintf(comm, sizeof(comm), "swapper/%d", cpu);
	else
		found = ask_proc(name->pid, comm) || ask_tracer(name->pid, comm);
	if (!found || (name->known && !strncmp(name->comm, comm, COMM_BYTES)))
		return; /* it keeps the name it had, if any */
	memcpy(name->comm, comm, COMM_BYTES);
	name->known = true;
	name->disks = 0;
}

struct name *name_of(uint32_t pid, int cpu, uint64_t t_ns)
{
	struct name *name = find(table, size, pid);

	if (!name->used) {
		if (2 * count >= size) {
			if (grow())
				return NULL;
			name = find(table, size, pid);
		}
		count++;
		*name = (struct name){ .pid = pid, .used = true };
		look(name, cpu, t_ns);
		gone += !name->known;
	} else if (pid && t_ns > name->looked_ns + AGAIN_NS) {
		bool known = name->known;

		look(name, cpu, t_ns);
		gone -= name->known && !known;
	}
	return name;
}
