// SPDX-License-Identifier: BSD-2-Clause
/*
 * lock.jsonl: every lock that was waited for, with its kind, name and inode.
 *
 * Sources of a name, in this order: the symbol of a static lock, where /proc/kallsyms lists data; the per-CPU variable;
 * the slab cache's struct and its member; the call paths. Without any of these a lock has no name. A later call path
 * can give a name, or a nearer one, and two that disagree take the name away; an inode's memory can become another
 * inode's. Then the lock gets another line: the last line counts. A lock is identified by its address, which is written
 * only with --addresses. A lock freed and another one allocated at its address are taken for the same.
 */
#include "lock_names.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kmalloc.h"
#include "locks/lock_ids.h"
#include "percpu.h"
#include "recorder/clock.h"
#include "recorder/jsonl.h"
#include "recorder/ksyms.h"
#include "recorder/options.h"
#include "recorder/registry.h"
#include "recorder/room.h"
#include "slab.h"

#define LOOK_AGAIN_NS 1000000000ULL
#define PATHS_KEPT    8
#define PATHS_WAITING 2048
#define SEARCH_NS     3000000

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

/* Names, shared by all locks of a class. */
struct class
{
	struct class *next;
	const char *named_by;
	struct lock_member is;
};

struct lock {
	uint64_t address;
	uint64_t looked_ns;	   /* when its object was last read */
	const struct class *class; /* NULL: not named */
	uint64_t inodes;	   /* that had this memory, one after the other */
	uint64_t inodes_written;
	struct lock_object object;
	uint32_t paths[PATHS_KEPT]; /* hashes of call paths tried */
	int path_count;
	int kind;
};

static const char by_path[] = "call path";

/* Call paths to be searched, oldest first from `first_waiting`. */
static struct waiting {
	struct lock *lock;
	uint64_t frames[LOCK_STACK_FRAMES + 1];
} waiting[PATHS_WAITING];
static size_t first_waiting, waiting_count;

static struct jsonl file = { .fd = -1 };
static int objects, inode_caches; /* maps */
static int users;		  /* collectors that have it open */
static bool addresses;
static struct class *classes;
static struct lock **locks; /* by number (lock_ids.h), from 1; NULL: no wait on it was noted */
static size_t room;

static bool grow(size_t needed)
{
	size_t bigger = room ? room : 1024;
	struct lock **more;

	while (bigger < needed)
		bigger *= 2;
	more = realloc(locks, bigger * sizeof(*locks));
	if (!more)
		return false;
	memset(more + room, 0, (bigger - room) * sizeof(*more));
	locks = more;
	room = bigger;
	return true;
}

/* The lock at this address, added if it is new. NULL: it has no number, or there is no memory. */
static struct lock *lock_at(uint64_t address, int kind, bool *is_new)
{
	uint64_t id = lock_id(address);
	struct lock **place;

	if (!id || (id > room && !grow(id)))
		return NULL;
	place = &locks[id - 1];
	*is_new = !*place;
	if (*is_new)
		*place = malloc(sizeof(**place));
	if (*is_new && *place)
		**place = (struct lock){ .address = address, .kind = kind };
	return *place;
}

bool kernel_has_function(const char *name)
{
	struct type found;

	return types_load() && types_find(name, BTF_KIND_FUNC, &found, 1) == 1;
}

struct lock_object_lookups lock_names_lookups(void)
{
	return (struct lock_object_lookups){
		.kmem_cache = kernel_has_function("bpf_get_kmem_cache"),
		.vmemmap_base = ksyms_address("vmemmap_base"),
		.page_offset_base = ksyms_address("page_offset_base"),
		.vmalloc_base = ksyms_address("vmalloc_base"),
	};
}

int lock_names_share(struct bpf_object *object)
{
	if (!users)
		return 0;
	if (bpf_map__reuse_fd(bpf_object__find_map_by_name(object, "objects"), objects) ||
	    bpf_map__reuse_fd(bpf_object__find_map_by_name(object, "inode_caches"), inode_caches))
		return -1;
	return 0;
}

int lock_names_open(const struct options *options, struct bpf_object *object)
{
	if (!users) {
		if (jsonl_open(&file, options->whole_fd, "lock.jsonl"))
			return -1;
		addresses = options->addresses;
		objects = bpf_object__find_map_fd_by_name(object, "objects");
		inode_caches = bpf_object__find_map_fd_by_name(object, "inode_caches");
		if (types_load()) {
			slabs_load();
			slabs_note_inodes(inode_caches);
			percpu_load();
		}
	}
	users++;
	return 0;
}

/* The class of these names, added if it is new. NULL: no memory. */
static const struct class *class_of(const char *named_by, const struct lock_member *member)
{
	struct class *class;

	for (class = classes; class; class = class->next)
		if (class->named_by == named_by && !strcmp(class->is.name, member->name) &&
		    !strcmp(class->is.member, member->member) &&
		    !strcmp(class->is.type, member->type))
			return class;
	class = malloc(sizeof(*class));
	if (!class)
		return NULL;
	*class = (struct class){ classes, named_by, *member };
	classes = class;
	return class;
}

static void put(FILE *out, const char *key, const char *value)
{
	fprintf(out, ",\"%s\":", key);
	if (value && value[0])
		json_string(out, value);
	else
		fputs("null", out);
}

static bool write_lock(struct lock *lock)
{
	const struct class *class = lock->class;
	char *line = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&line, &bytes);
	bool ok;

	if (!out)
		return false;
	fprintf(out, "{\"lock_id\":%llu", (unsigned long long)lock_id(lock->address));
	put(out, "kind", kind_names[lock->kind]);
	put(out, "name", class ? class->is.name : NULL);
	put(out, "named_by", class ? class->named_by : NULL);
	put(out, "type", class ? class->is.type : NULL);
	put(out, "slab", lock->object.slab);
	put(out, "member", class ? class->is.member : NULL);
	if (addresses)
		fprintf(out, ",\"address\":\"0x%llx\"", (unsigned long long)lock->address);
	else
		fputs(",\"address\":null", out);
	if (lock->object.inode)
		fprintf(out, ",\"ino\":%llu,\"dev\":\"%u:%u\",\"inodes\":%llu",
			(unsigned long long)lock->object.ino, lock->object.dev >> 20,
			lock->object.dev & 0xfffff, (unsigned long long)lock->inodes);
	else
		fputs(",\"ino\":null,\"dev\":null,\"inodes\":null", out);
	fputs("}\n", out);
	ok = fclose(out) == 0 && jsonl_append(&file, line, bytes);
	free(line);
	lock->inodes_written = lock->inodes;
	return ok;
}

static void name_static(struct lock *lock)
{
	struct lock_member member = { 0 };
	uint64_t offset = 0;
	const char *symbol = ksyms_symbol(lock->address, &offset);

	if (symbol && offset)
		snprintf(member.name, sizeof(member.name), "%s+0x%llx", symbol,
			 (unsigned long long)offset);
	else if (symbol)
		snprintf(member.name, sizeof(member.name), "%s", symbol);
	if (symbol)
		lock->class = class_of("symbol", &member);
	else if (percpu_lock(lock->address, lock->kind, &member))
		lock->class = class_of("percpu", &member);
}

/* Names the lock by its address, else by its slab cache. */
static void name_by_address(struct lock *lock)
{
	struct lock_member member;

	lock->class = NULL;
	name_static(lock);
	if (!lock->class && slab_lock(&lock->object, lock->kind, &member))
		lock->class = class_of("slab", &member);
}

/* Reads the lock's object from the programs' map, which may have dropped it; true: it is known for the first time. */
static bool read_object(struct lock *lock)
{
	struct lock_object now, *known = &lock->object;
	bool first = !known->slab[0];
	uint64_t ino = known->ino;

	if (bpf_map_lookup_elem(objects, &lock->address, &now) || !now.slab[0])
		return false;
	now.slab[sizeof(now.slab) - 1] = 0;
	if (first)
		lock->inodes = (now.inode != 0) + now.several;
	else if (now.ino == known->ino && now.several >= known->several)
		lock->inodes += now.several - known->several;
	else
		lock->inodes += now.several + (now.ino != known->last_ino);
	*known = now;
	if (!first)
		known->ino = ino;
	else if (!lock->class)
		name_by_address(lock);
	return first;
}

/* Is this call path new for the lock? */
static bool new_path(struct lock *lock, const uint64_t *frames)
{
	uint64_t hash = 14695981039346656037ULL;

	for (int i = 0; frames[i]; i++)
		hash = (hash ^ frames[i]) * 1099511628211ULL;
	hash >>= 32;
	for (int i = 0; i < PATHS_KEPT && i < lock->path_count; i++)
		if (lock->paths[i] == (uint32_t)hash)
			return false;
	lock->paths[lock->path_count++ % PATHS_KEPT] = hash;
	return true;
}

static bool may_use_paths(const struct lock *lock)
{
	return lock->object.slab[0] && (!lock->class || lock->class->named_by == by_path);
}

/* frames: as for kmalloc_lock(). False: the deadline is over. *news: set if the lock's name has changed. */
static bool name_by_path(struct lock *lock, const uint64_t *frames, bool *news)
{
	const struct class *before = lock->class;
	struct lock_member member;

	if (!may_use_paths(lock))
		return true;
	switch (kmalloc_lock(lock->address, &lock->object, lock->kind, frames, &member)) {
	case CALLERS_LATER:
		return false;
	case CALLERS_YES:
		lock->class = class_of(by_path, &member);
		break;
	case CALLERS_NO:
		lock->class = NULL;
		break;
	}
	*news |= lock->class != before;
	return true;
}

/* Queues a call path for a later search. With a full queue the path counts as new at its next use. */
static void queue_path(struct lock *lock, const uint64_t *frames)
{
	struct waiting *place;

	if (waiting_count == PATHS_WAITING || !new_path(lock, frames))
		return;
	place = &waiting[(first_waiting + waiting_count++) % PATHS_WAITING];
	*place = (struct waiting){ .lock = lock };
	for (int i = 0; i < LOCK_STACK_FRAMES && frames[i]; i++)
		place->frames[i] = frames[i];
}

static void search_paths(uint64_t until_ns)
{
	callers_set_deadline(until_ns);
	while (waiting_count && monotonic_ns() < until_ns) {
		struct waiting *next = &waiting[first_waiting];
		bool news = false;

		if (!name_by_path(next->lock, next->frames, &news))
			return;
		if (news)
			write_lock(next->lock);
		first_waiting = (first_waiting + 1) % PATHS_WAITING;
		waiting_count--;
	}
}

/*
 * Searches call paths for names, for some milliseconds, and writes the lines. After bins are emptied, which must not
 * wait.
 */
static void lock_names_search(void)
{
	if (!users || !room_left())
		return;
	search_paths(monotonic_ns() + SEARCH_NS);
	jsonl_flush(&file);
}

REGISTER_IDLE_WORK(lock_names_search)

bool lock_names_note(uint64_t address, int kind, const uint64_t *frames)
{
	bool news, due;
	struct lock *lock = lock_at(address, kind, &news);

	if (!lock)
		return false;
	if (news)
		name_static(lock);
	if (kind == LOCK_KIND_SEMAPHORE && lock->kind == LOCK_KIND_SPINLOCK) {
		/* A semaphore begins with its own spinlock: one address, two locks, one name. */
		lock->kind = kind;
		name_by_address(lock);
		name_by_path(lock, NULL, &news);
		news = true;
	}
	due = news || monotonic_ns() - lock->looked_ns > LOOK_AGAIN_NS;
	if (due && (news || lock->object.inode || !lock->object.slab[0]))
		news |= read_object(lock);
	/* Other locks of the object may have been named meanwhile. */
	if (due)
		name_by_path(lock, NULL, &news);
	if (frames && may_use_paths(lock))
		queue_path(lock, frames);
	if (due)
		lock->looked_ns = monotonic_ns();
	/* A second inode at this address is written at once, the number of inodes at the end. */
	if (lock->inodes_written == 1 && lock->inodes > 1)
		news = true;
	return !news || write_lock(lock);
}

void lock_names_close(void)
{
	if (--users)
		return;
	search_paths(UINT64_MAX);
	for (size_t i = 0; i < room; i++) {
		struct lock *lock = locks[i];
		bool news = false;

		if (!lock)
			continue;
		if (lock->object.inode)
			read_object(lock);
		name_by_path(lock, NULL, &news);
		if (news || lock->inodes != lock->inodes_written)
			write_lock(lock);
		free(lock);
	}
	if (!jsonl_close(&file))
		fprintf(stderr, "recorder: lock.jsonl: the last names could not be written\n");
	while (classes) {
		struct class *next = classes->next;

		free(classes);
		classes = next;
	}
	kmalloc_unload();
	percpu_unload();
	slabs_unload();
	types_unload();
	free(locks);
	locks = NULL;
	room = 0;
	lock_ids_clear();
}
