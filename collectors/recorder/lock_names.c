// SPDX-License-Identifier: BSD-2-Clause
/*
 * lock.jsonl: every lock that was waited for, once, with what names can be had.
 *
 * name: the symbol of a static lock, where /proc/kallsyms lists data. slab: the cache of the object it is in,
 * where the kernel tells (6.14); caches of one size may be merged and then share one name. A lock is its
 * address: one freed and another made in its place are taken for the same.
 */
#include "lock_names.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>

#include "lines.h"
#include "records.h"

static const char *const kind_names[] = {
	[LOCK_KIND_SPINLOCK] = "spinlock",
	[LOCK_KIND_RWLOCK] = "rwlock",
	[LOCK_KIND_MUTEX] = "mutex",
	[LOCK_KIND_RWSEM] = "rwsem",
	[LOCK_KIND_PERCPU_RWSEM] = "percpu_rwsem",
	[LOCK_KIND_RTMUTEX] = "rtmutex",
	[LOCK_KIND_SEMAPHORE] = "semaphore",
	[LOCK_KIND_UNKNOWN] = "unknown",
};

static struct line_file file = { .fd = -1 };
static int objects;
static int users; /* sources that have it open */
/* Locks written, an open hash table; 0: free. */
static uint64_t *table;
static size_t room, used;

static uint64_t *place_of(uint64_t *in, size_t size, uint64_t lock)
{
	size_t at = (lock * 0x9E3779B97F4A7C15ULL) >> 32;

	while (in[at & (size - 1)] && in[at & (size - 1)] != lock)
		at++;
	return &in[at & (size - 1)];
}

static bool grow(void)
{
	size_t bigger = room ? room * 2 : 1024;
	uint64_t *fresh = calloc(bigger, sizeof(*fresh));

	if (!fresh)
		return false;
	for (size_t i = 0; i < room; i++)
		if (table[i])
			*place_of(fresh, bigger, table[i]) = table[i];
	free(table);
	table = fresh;
	room = bigger;
	return true;
}

int lock_names_open(const struct options *options, int objects_fd)
{
	if (!users) {
		objects = objects_fd;
		if (lines_open(&file, options->out_fd, "lock.jsonl"))
			return -1;
	}
	users++;
	return 0;
}

int lock_names_objects(void)
{
	return users ? objects : -1;
}

static void put(FILE *out, const char *key, const char *value)
{
	fprintf(out, "\"%s\":", key);
	if (value)
		json_string(out, value);
	else
		fputs("null", out);
}

static bool write_lock(uint64_t lock, int kind)
{
	struct lock_object object = { 0 };
	char name[256], *line = NULL;
	uint64_t offset = 0;
	const char *symbol = stacks_symbol(lock, &offset);
	size_t bytes = 0;
	FILE *out = open_memstream(&line, &bytes);
	bool ok;

	if (!out)
		return false;
	if (bpf_map_lookup_elem(objects, &lock, &object))
		object.slab[0] = 0;
	object.slab[sizeof(object.slab) - 1] = 0;
	if (symbol && offset)
		snprintf(name, sizeof(name), "%s+0x%llx", symbol, (unsigned long long)offset);
	else if (symbol)
		snprintf(name, sizeof(name), "%s", symbol);
	fprintf(out, "{\"lock_id\":%llu,", (unsigned long long)lock);
	put(out, "kind", kind_names[kind]);
	fputc(',', out);
	put(out, "name", symbol ? name : NULL);
	fputc(',', out);
	put(out, "slab", object.slab[0] ? object.slab : NULL);
	fprintf(out, ",\"member\":null,\"address\":\"0x%llx\"}\n", (unsigned long long)lock);
	ok = fclose(out) == 0 && lines_append(&file, line, bytes);
	free(line);
	return ok;
}

bool lock_names_note(uint64_t lock, int kind, const uint64_t *frames)
{
	uint64_t *place;

	(void)frames;
	if (used * 2 >= room && !grow())
		return false;
	place = place_of(table, room, lock);
	if (*place == lock)
		return true;
	if (!write_lock(lock, kind))
		return false;
	*place = lock;
	used++;
	return true;
}

void lock_names_close(void)
{
	if (--users)
		return;
	lines_close(&file);
	free(table);
	table = NULL;
	room = used = 0;
}
