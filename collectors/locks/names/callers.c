// SPDX-License-Identifier: BSD-2-Clause
/*
 * The struct that a lock lies in, from the functions on the call path that waits for it.
 *
 * A kmalloc() cache holds objects of any type. But the function that takes a lock mostly has the object, or
 * something that points to it, among its arguments, whose types BTF knows. A struct is a candidate if it fits the
 * object's size and has a lock of this kind at the lock's offset. The nearest candidate is the answer, by callers and
 * pointers between. Of several as near, the one whose name begins as the function's does (pipe_write,
 * pipe_inode_info); if there is none such, there is no answer: a wrong name is worse than none.
 */
#include "callers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock_functions.h"
#include "recorder/clock.h"
#include "recorder/hash.h"
#include "recorder/ksyms.h"
#include "recorder/stacks.h"
#include "slab.h"

#define MAX_FUNCTIONS 8 /* callers searched from */
#define MAX_HOPS      3 /* pointers between an argument and the object */
#define MAX_QUEUE     8192
#define MAX_DEPTH     8	   /* structs in structs */
#define MAX_ANSWERS   4096 /* kept; when there are more, all are forgotten */
#define SPARE_BYTES   72

/* Structs that are behind a pointer to void, or that a function finds by a name. */
static const struct {
	const char *from, *to;
} behind[] = {
	{ "filename", "dentry" },
	{ "list_lru", "list_lru_memcg" },
	{ "elevator_queue", "deadline_data" },
	{ "elevator_queue", "bfq_data" },
	{ "elevator_queue", "kyber_queue_data" },
};

/* The struct that a file system puts around an inode or behind a super block: the file system's name, then this. */
static const struct {
	const char *from, *suffix;
} by_prefix[] = {
	{ "inode", "_inode_info" }, { "inode", "_inode" },	   { "super_block", "_sb_info" },
	{ "file", "_ctx" },	    { "super_block", "_fs_info" }, { "super_block", "_mount" },
};

/* The nearest struct found from one function, for a lock at these offsets of an object of this cache. */
struct answer {
	uint64_t key; /* of the members down to kind */
	char slab[LOCK_SLAB_NAME];
	char function[64];
	uint32_t offset;
	uint32_t other_offset;
	int kind;
	int hops;     /* -1: no struct */
	bool several; /* structs at that distance, and no name begins as the function's does */
	bool prefix;  /* the struct's name begins as the function's does */
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

static struct hash answers = HASH(struct answer);
static struct search search;
static uint64_t deadline_ns = UINT64_MAX;
static int searches;	/* since the deadline was set */
static uint8_t *queued; /* bit set: the type is, or was, in the queue */
static size_t queued_bytes;

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

/* Is the struct's first word, up to _, one of the function's words? */
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

	/* The length of the last member is not known. */
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
	/* At MAX_HOPS pointers there are hundreds of structs. */
	if (hops == MAX_HOPS && !prefix)
		return;
	/*
	 * Structs that lie in others (an address space in an inode) or have a cache of their own are no kmalloc()
	 * objects.
	 */
	if (slab_is_kmalloc(search.object->slab) &&
	    (slab_has_own(type) || (!prefix && types_is_member(type))))
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
	if (queued[type.id / 8] & (1 << type.id % 8))
		return;
	queued[type.id / 8] |= 1 << type.id % 8;
	search.queue[search.tail] = type;
	search.hops[search.tail++] = hops;
}

/* Queues all structs that the struct's members point to. */
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
	struct type types[4];
	int count = types_find(name, BTF_KIND_STRUCT, types, 4);

	/* The module's own types, and the kernel's: a module's BTF goes on from the kernel's. */
	for (int i = 0; i < count; i++)
		if (types[i].btf == btf || types[i].btf == types_vmlinux())
			push((struct type){ btf, types[i].id }, hops);
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

/* Considers what a function's arguments point to, and what can be reached from there, nearest first. */
static void search_from(struct type function)
{
	const struct btf_type *t = btf__type_by_id(function.btf, function.id);
	const struct btf_type *proto = btf__type_by_id(function.btf, t->type);
	size_t bytes = btf__type_cnt(function.btf) / 8 + 1;
	struct type to;

	if (bytes > queued_bytes) {
		uint8_t *more = realloc(queued, bytes);

		if (!more)
			return;
		queued = more;
		queued_bytes = bytes;
	}
	memset(queued, 0, bytes);
	search.tail = 0;
	for (int i = 0; proto && i < btf_vlen(proto); i++)
		if (types_pointed_to((struct type){ function.btf, btf_params(proto)[i].type }, &to))
			push(to, 0);
	/* Every function can reach the running task, without an argument. */
	push_named("task_struct", function.btf, MAX_HOPS - 1);
	push_named("mm_struct", function.btf, MAX_HOPS - 1);
	for (int hops = 0; hops <= MAX_HOPS; hops++) {
		/* follow() appends to the queue. */
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

static bool is_answer_to(const struct answer *answer, const struct lock_object *object, int kind,
			 const char *function)
{
	return answer->kind == kind && answer->offset == object->offset &&
	       answer->other_offset == object->other_offset &&
	       !strcmp(answer->slab, object->slab) && !strcmp(answer->function, function);
}

/* The answer from one function, searched for once. NULL: the deadline is over, or there is no memory. */
static const struct answer *answer_from(const struct lock_object *object, int kind,
					const char *function)
{
	uint64_t key = hash_text(hash_text(KEY_OF_NOTHING, function), object->slab);
	struct answer *answer;
	struct type types[4];
	bool added;
	int count;

	key = hash_number(hash_number(hash_number(key, object->offset), object->other_offset),
			  kind);
	answer = hash_find(&answers, key);
	if (answer && is_answer_to(answer, object, kind, function))
		return answer;
	if (searches++ && monotonic_ns() > deadline_ns)
		return NULL;
	if (!answer && answers.used >= MAX_ANSWERS)
		hash_clear(&answers);
	answer = hash_add(&answers, key, &added);
	if (!answer)
		return NULL;
	*answer = (struct answer){ .key = key,
				   .offset = object->offset,
				   .other_offset = object->other_offset,
				   .kind = kind,
				   .hops = -1 };
	memcpy(answer->slab, object->slab, sizeof(answer->slab));
	snprintf(answer->function, sizeof(answer->function), "%s", function);
	search.object = object;
	search.kind = kind;
	search.answer = answer;
	count = types_find(function, BTF_KIND_FUNC, types, 4);
	for (int i = 0; i < count; i++)
		search_from(types[i]);
	return answer;
}

void callers_set_deadline(uint64_t ns)
{
	deadline_ns = ns;
	searches = 0;
}

enum callers_answer callers_lock(const struct lock_object *object, int kind, const uint64_t *frames,
				 struct lock_member *member, int *distance)
{
	struct answer best = { .hops = -1 };
	bool several = false;
	int functions = 0;

	if (!object->slab[0])
		return CALLERS_NO;
	for (int i = stacks_own_frames(frames, LOCK_STACK_FRAMES);
	     frames[i] && functions < MAX_FUNCTIONS; i++) {
		uint64_t unused;
		/* A return address may be behind the function's end. */
		const char *symbol = ksyms_symbol(frames[i] - 1, &unused);
		const struct answer *answer;
		char function[64];

		if (!symbol || (!functions && is_lock_function(symbol)))
			continue;
		/* Without what the compiler appends: name.isra.0 */
		snprintf(function, sizeof(function), "%.*s", (int)strcspn(symbol, "."), symbol);
		answer = answer_from(object, kind, function);
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
	*member = best.member;
	return CALLERS_YES;
}

void callers_unload(void)
{
	hash_clear(&answers);
	free(queued);
	queued = NULL;
	queued_bytes = 0;
}
