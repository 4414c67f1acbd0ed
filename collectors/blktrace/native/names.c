// SPDX-License-Identifier: BSD-2-Clause
/*
 * Names of the threads in the event stream.
 *
 * A name is read from /proc when the thread is first seen, some milliseconds after its event; if the thread is gone by
 * then, from perf's records (comms.c). It is read again when perf has a newer name (a program begins with the name of
 * the shell that started it), and after a second, as thread ids are reused.
 */
#include "blktrace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS 1000000000ULL

static struct name *table;
static size_t size, count; /* size: a power of two */
static size_t noted_bytes;
static uint64_t gone;

int names_open(int cpus, int files)
{
	size = 1024;
	noted_bytes = (files + 7) / 8;
	table = calloc(size, sizeof(*table));
	return table ? comms_open(cpus) : -1;
}

uint64_t names_gone(void)
{
	return gone;
}

/* perf's buffers have every fork and exec before the events read so far. */
static bool name_from_perf(uint32_t pid, char *comm)
{
	comms_read();
	return comms_name(pid, comm);
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
		found = comms_from_proc(name->pid, comm) || name_from_perf(name->pid, comm);
	if (!found || (name->known && !strncmp(name->comm, comm, COMM_BYTES)))
		return; /* the thread keeps the name it had, if any */
	memcpy(name->comm, comm, COMM_BYTES);
	name->known = true;
	memset(name->noted, 0, noted_bytes);
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
		*name = (struct name){ .pid = pid, .noted = calloc(1, noted_bytes) };
		if (!name->noted)
			return NULL;
		name->used = true;
		count++;
		look(name, cpu, t_ns);
		gone += !name->known;
	} else if (pid &&
		   (t_ns > name->looked_ns + AGAIN_NS || comms_taken(pid, name->looked_ns, t_ns))) {
		bool known = name->known;

		look(name, cpu, t_ns);
		gone -= name->known && !known;
	}
	return name;
}
