// SPDX-License-Identifier: BSD-2-Clause
/*
 * Which struct a lock is in, judged by the functions that wait for it.
 *
 * kmalloc() does not say what for. But the function that takes the lock mostly has the object, or something that
 * points to it, among its arguments, whose types BTF knows. A struct is an answer if it fits the object's size and
 * has a lock of the kind exactly where the lock is. The nearest answer counts, by callers and pointers
 * between; of several as near, the one whose name begins as the function's does (pipe_write, pipe_inode_info); if that
 * does not decide either, there is no answer: a wrong name is worse than none.
 */
#include "callers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/clock.h"
#include "recorder/ksyms.h"
#include "recorder/stacks.h"
#include "slab.h"

#define MAX_FUNCTIONS 8 /* callers looked at */
#define MAX_HOPS      3 /* pointers between an argument and the object */
#define MAX_QUEUE     8192
#define MAX_DEPTH     8 /* structs in structs */
#define CACHE_SIZE    4096
#define SPARE_BYTES   72

/* Begins of the names of what waits for locks, and of what traces it. */
static const char *const primitives[] = {
	"bpf_",
	"__bpf_",
	"__traceiter_",
	"__probestub_",
	"trace_contention_",
	"mutex_",
	"__mutex_",
	"ww_mutex_",
	"__ww_mutex_",
	"down",
	"__down",
	"rwsem_",
	"_raw_",
	"__raw_",
	"queued_",
	"native_queued_",
	"__pv_queued",
	"pv_",
	"percpu_down_",
	"__percpu_down",
	"percpu_rwsem_",
	"rt_mutex_",
	"__rt_mutex_",
	"rtlock_",
	"rt_spin_",
	"do_raw_",
	"up_",
	"lock_contention",
};

/* What is behind a pointer to void, or is found by a function that only gets a name. */
static const struct {
	const char *from, *to;
} behind[] = {
	{ "filename", "dentry" },
	{ "list_lru", "list_lru_memcg" },
	{ "elevator_queue", "deadline_data" },
	{ "elevator_queue", "bfq_data" },
	{ "elevator_queue", "kyber_queue_data" },
};

/* What an inode or super block mostly has around or behind it, with the file system's name in front. */
static const struct {
	const char *from, *suffix;
} by_prefix[] = {
	{ "inode", "_inode_info" }, { "inode", "_inode" },	   { "super_block", "_sb_info" },
	{ "file", "_ctx" },	    { "super_block", "_fs_info" }, { "super_block", "_mount" },
};

struct answer {
	char slab[LOCK_SLAB_NAME];
	char function[64];
	uint32_t offset;
	uint32_t other_offset;
	int kind;
	int hops;     /* -1: no struct */
	bool several; /* at that distance, and none begins as the function does */
	bool prefix;  /* its name begins as the function's does */
	struct lock_member member;
};

struct search {
	const struct lock_object *object;
	int kind;
	struct answer *answer;
	struct type queue[MAX_QUEUE];
	unsigned char hops[MAX_QUEUE];
	int tail;
};

static struct answer *cache[CACHE_SIZE];
static struct search search;
static uint64_t turn_until_ns = UINT64_MAX;
static int looked_in_turn;
static uint8_t *seen; /* bit set: types in the queue */
static size_t seen_bytes;

static bool is_primitive(const char *name)
{
	for (size_t i = 0; i < sizeof(primitives) / sizeof(primitives[0]); i++)
		if (!strncmp(name, primitives[i], strlen(primitives[i])))
			return true;
	return false;
}

/* The size class below, of those kmalloc() has. */
static uint32_t class_below(uint32_t bytes)
{
	if (bytes == 96 || bytes == 192)
		return bytes * 2 / 3;
	if (bytes == 128 || bytes == 256)
		return bytes * 3 / 4;
	return bytes / 2;
}

static bool fits(uint32_t bytes)
{
	const struct lock_object *object = search.object;

	if (slab_is_kmalloc(object->slab))
		return bytes <= object->object_bytes && bytes > class_below(object->object_bytes);
	return bytes <= object->place_bytes && bytes + SPARE_BYTES > object->place_bytes;
}

/* Whether the struct's first word, up to _, is one of the function's. */
static bool same_word(const char *type, const char *function)
{
	size_t length = strcspn(type, "_");

	for (const char *word = function; length > 2 && *word; word += !!*word) {
		if (strcspn(word, "_") == length && !strncmp(word, type, length))
			return true;
		word += strcspn(word, "_");
	}
	return false;
}

static bool fits_type(struct type type)
{
	const struct btf_type *t = types_plain(&type);
	uint32_t bytes = types_bytes(type);
	int last = btf_vlen(t) - 1;

	/* How long its last member is is not known. */
	if (last >= 0 && types_open_ended(type.btf, btf_members(t)[last].type))
		return bytes && bytes <= search.object->object_bytes;
	return fits(bytes);
}

static void consider(struct type type, int hops)
{
	struct answer *answer = search.answer;
	struct lock_member member;
	bool prefix;

	if (!fits_type(type) ||
	    (!member_lock_at(type, search.object->offset, search.kind, &member) &&
	     !member_lock_at(type, search.object->other_offset, search.kind, &member)))
		return;
	prefix = same_word(member.type, answer->function);
	/* So far away there are hundreds of structs. */
	if (hops == MAX_HOPS && !prefix)
		return;
	/* Address spaces lie in inodes, and those have caches of their own. */
	if (slab_is_kmalloc(search.object->slab) &&
	    (slab_of_its_own(type) || (!prefix && types_is_part(type))))
		return;
	if (answer->hops < 0 || (prefix && !answer->prefix)) {
		answer->hops = hops;
		answer->member = member;
		answer->prefix = prefix;
		answer->several = false;
	} else if (prefix == answer->prefix && strcmp(answer->member.name, member.name)) {
		answer->several = true;
	}
}

static void push(struct type type, int hops)
{
	const struct btf_type *t = types_plain(&type);

	if (!t || !btf_is_composite(t) || search.tail == MAX_QUEUE)
		return;
	if (seen[type.id / 8] & (1 << type.id % 8))
		return;
	seen[type.id / 8] |= 1 << type.id % 8;
	search.queue[search.tail] = type;
	search.hops[search.tail++] = hops;
}

/* Everything the struct's members point to. */
static void follow(struct type type, int hops, int depth)
{
	const struct btf_type *t = types_plain(&type);
	struct type to;

	while (t && btf_is_array(t)) {
		type.id = btf_array(t)->type;
		t = types_plain(&type);
	}
	if (!t || depth > MAX_DEPTH)
		return;
	if (types_pointed_to(type, &to))
		push(to, hops);
	if (!btf_is_composite(t))
		return;
	for (int i = 0; i < btf_vlen(t); i++)
		follow((struct type){ type.btf, btf_members(t)[i].type }, hops, depth + 1);
}

static void push_named(const char *name, const struct btf *btf, int hops)
{
	struct type found[4];
	int count = types_find(name, BTF_KIND_STRUCT, found, 4);

	/* A module's own types, and the kernel's, which the module's BTF goes on from. */
	for (int i = 0; i < count; i++)
		if (found[i].btf == btf || found[i].btf == types_vmlinux())
			push((struct type){ btf, found[i].id }, hops);
}

static void follow_names(struct type type, int hops)
{
	const char *name = types_name(type), *function = search.answer->function;

	for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++)
		if (!strcmp(name, behind[i].from))
			push_named(behind[i].to, type.btf, hops);

	for (size_t i = 0; i < sizeof(by_prefix) / sizeof(by_prefix[0]); i++) {
		char other[128];

		if (strcmp(name, by_prefix[i].from))
			continue;
		snprintf(other, sizeof(other), "%.*s%s", (int)strcspn(function, "_"), function,
			 by_prefix[i].suffix);
		push_named(other, type.btf, hops);
	}
}

/* One function's arguments, and what can be reached from them, nearest first. */
static void look(struct type function)
{
	const struct btf_type *t = btf__type_by_id(function.btf, function.id);
	const struct btf_type *proto = btf__type_by_id(function.btf, t->type);
	size_t bytes = btf__type_cnt(function.btf) / 8 + 1;
	struct type to;

	if (bytes > seen_bytes) {
		uint8_t *more = realloc(seen, bytes);

		if (!more)
			return;
		seen = more;
		seen_bytes = bytes;
	}
	memset(seen, 0, bytes);
	search.tail = 0;
	for (int i = 0; proto && i < btf_vlen(proto); i++)
		if (types_pointed_to((struct type){ function.btf, btf_params(proto)[i].type }, &to))
			push(to, 0);
	/* Everybody has the task that is running, but says so only in the code. */
	push_named("task_struct", function.btf, MAX_HOPS - 1);
	push_named("mm_struct", function.btf, MAX_HOPS - 1);
	for (int hops = 0; hops <= MAX_HOPS; hops++) {
		/* The queue grows meanwhile. */
		for (int i = 0; i < search.tail; i++) {
			if (search.hops[i] != hops)
				continue;
			consider(search.queue[i], hops);
			if (hops == MAX_HOPS)
				continue;
			follow(search.queue[i], hops + 1, 0);
			follow_names(search.queue[i], hops + 1);
		}
		if (search.answer->hops >= 0)
			return;
	}
}

static uint32_t hash_of(const struct lock_object *object, int kind, const char *function)
{
	uint32_t hash = object->offset * 31 + kind;

	for (const char *c = function; *c; c++)
		hash = hash * 33 + *c;
	for (const char *c = object->slab; *c; c++)
		hash = hash * 33 + *c;
	return hash % CACHE_SIZE;
}

/* What the function says; kept, one answer a place. NULL: the turn is over, or no memory. */
static const struct answer *ask(const struct lock_object *object, int kind, const char *function)
{
	struct answer **place = &cache[hash_of(object, kind, function)], *answer = *place;
	struct type found[4];
	int count;

	if (answer && answer->kind == kind && answer->offset == object->offset &&
	    answer->other_offset == object->other_offset && !strcmp(answer->slab, object->slab) &&
	    !strcmp(answer->function, function))
		return answer;
	if (looked_in_turn++ && monotonic_ns() > turn_until_ns)
		return NULL;
	if (!answer)
		answer = *place = malloc(sizeof(*answer));
	if (!answer)
		return NULL;
	*answer = (struct answer){ .offset = object->offset,
				   .other_offset = object->other_offset,
				   .kind = kind,
				   .hops = -1 };
	memcpy(answer->slab, object->slab, sizeof(answer->slab));
	snprintf(answer->function, sizeof(answer->function), "%s", function);
	search.object = object;
	search.kind = kind;
	search.answer = answer;
	count = types_find(function, BTF_KIND_FUNC, found, 4);
	for (int i = 0; i < count; i++)
		look(found[i]);
	return answer;
}

void callers_turn(uint64_t until_ns)
{
	turn_until_ns = until_ns;
	looked_in_turn = 0;
}

enum callers_answer callers_lock(const struct lock_object *object, int kind, const uint64_t *frames,
				 struct lock_member *found, int *distance)
{
	struct answer best = { .hops = -1 };
	bool several = false;
	int functions = 0;

	if (!object->slab[0])
		return CALLERS_NO;
	for (int i = stacks_own_frames(frames, LOCK_STACK_FRAMES);
	     frames[i] && functions < MAX_FUNCTIONS; i++) {
		uint64_t unused;
		/* The address is that of the next instruction, which may be another function's. */
		const char *symbol = ksyms_symbol(frames[i] - 1, &unused);
		const struct answer *answer;
		char function[64];

		if (!symbol || (!functions && is_primitive(symbol)))
			continue;
		/* What the compiler made of the function: name.isra.0 */
		snprintf(function, sizeof(function), "%.*s", (int)strcspn(symbol, "."), symbol);
		answer = ask(object, kind, function);
		if (!answer)
			return CALLERS_LATER;
		if (answer->hops >= 0) {
			int far = functions + answer->hops;

			if (best.hops < 0 || far < *distance) {
				best = *answer;
				*distance = far;
				several = answer->several;
			} else if (far == *distance &&
				   strcmp(answer->member.name, best.member.name)) {
				several |= answer->prefix == best.prefix;
				if (answer->prefix && !best.prefix) {
					best = *answer;
					several = answer->several;
				}
			}
		}
		functions++;
	}
	if (best.hops < 0 || several)
		return CALLERS_NO;
	*found = best.member;
	return CALLERS_YES;
}

void callers_unload(void)
{
	for (int i = 0; i < CACHE_SIZE; i++) {
		free(cache[i]);
		cache[i] = NULL;
	}
	free(seen);
	seen = NULL;
	seen_bytes = 0;
}
