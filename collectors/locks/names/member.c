// SPDX-License-Identifier: BSD-2-Clause
/*
 * The lock at an offset of a struct: its class and its member path.
 *
 * A class is named by the innermost struct that has a name, and the path from there: ext4_inode_info.vfs_inode.i_rwsem is
 * inode.i_rwsem, in every file system. Structs that are only a lock, or a part that many structs have (a wait
 * queue), say nothing by themselves: the struct around them is named too (journal_s.j_wait_commit.lock, not
 * wait_queue_head.lock).
 */
#include "member.h"

#include <stdio.h>
#include <string.h>

#include "common/records.h"

#define MAX_PATH   16
#define KIND_TYPES 6

/* Types and typedefs of each kind of lock; the tracepoint's lock address is the begin of one. */
static const char *const lock_types[][KIND_TYPES] = {
	[LOCK_KIND_SPINLOCK] = { "spinlock", "spinlock_t", "raw_spinlock", "raw_spinlock_t",
				 "qspinlock" },
	[LOCK_KIND_RWLOCK] = { "rwlock_t", "qrwlock" },
	[LOCK_KIND_MUTEX] = { "mutex" },
	[LOCK_KIND_RWSEM] = { "rw_semaphore" },
	[LOCK_KIND_PERCPU_RWSEM] = { "percpu_rw_semaphore" },
	[LOCK_KIND_RTMUTEX] = { "rt_mutex", "rt_mutex_base" },
	[LOCK_KIND_SEMAPHORE] = { "semaphore" },
	[LOCK_KIND_UNKNOWN] = { NULL },
};

static const char *const carriers[] = {
	"spinlock",
	"raw_spinlock",
	"mutex",
	"rw_semaphore",
	"semaphore",
	"rt_mutex",
	"rt_mutex_base",
	"percpu_rw_semaphore",
	"rcuwait",
	"wait_queue_head",
	"swait_queue_head",
	"completion",
	"lockref",
	"percpu_counter",
	"percpu_ref",
	"xarray",
	"idr",
	"ida",
	"seqcount",
	"list_lru",
	"list_lru_node",
	"list_lru_one",
	"work_struct",
	"delayed_work",
	"sb_writers",
	"ratelimit_state",
	"klist",
	"kset",
	"sk_buff_head",
	"percpu_rwsem",
	"radix_tree_root",
	"maple_tree",
	"ww_mutex",
	"rhashtable",
	"blocking_notifier_head",
	"atomic_notifier_head",
};

struct step {
	const char *member;
	const char *owner; /* the named struct of this member; NULL: the struct has no name */
	bool array;
};

struct search {
	const struct btf *btf;
	int kind;
	struct step path[MAX_PATH];
	int depth;
};

static bool is_lock_type(const char *name, int kind)
{
	for (int i = 0; i < KIND_TYPES && lock_types[kind][i]; i++)
		if (!strcmp(name, lock_types[kind][i]))
			return true;
	return false;
}

static bool is_carrier(const char *name)
{
	for (size_t i = 0; i < sizeof(carriers) / sizeof(carriers[0]); i++)
		if (!strcmp(name, carriers[i]))
			return true;
	return false;
}

static bool find_lock(struct search *search, uint32_t id, uint32_t offset, const char *owner);

static bool find_in_members(struct search *search, const struct btf_type *t, uint32_t offset,
			    const char *owner)
{
	const char *name = btf__name_by_offset(search->btf, t->name_off);

	if (name && name[0])
		owner = name;
	for (int i = 0; i < btf_vlen(t); i++) {
		const struct btf_member *m = &btf_members(t)[i];
		uint32_t begin = btf_member_bit_offset(t, i) / 8;
		long long bytes = i == btf_vlen(t) - 1 && types_open_ended(search->btf, m->type)
					  ? UINT32_MAX
					  : btf__resolve_size(search->btf, m->type);
		const char *member = btf__name_by_offset(search->btf, m->name_off);

		if (btf_member_bitfield_size(t, i) || bytes <= 0 || offset < begin ||
		    offset >= begin + bytes)
			continue;
		if (!member || !member[0]) {
			if (find_lock(search, m->type, offset - begin, owner))
				return true;
			continue;
		}
		if (search->depth == MAX_PATH)
			continue;
		search->path[search->depth++] = (struct step){ member, owner, false };
		if (find_lock(search, m->type, offset - begin, NULL))
			return true;
		search->depth--;
	}
	return false;
}

/* Finds the lock at the offset of the type, and the path to it. owner: the struct that an unnamed struct's members count as members of. */
static bool find_lock(struct search *search, uint32_t id, uint32_t offset, const char *owner)
{
	const struct btf_type *t = btf__type_by_id(search->btf, id);
	long long bytes;

	while (t && (btf_is_mod(t) || btf_is_typedef(t))) {
		if (!offset && btf_is_typedef(t) &&
		    is_lock_type(btf__name_by_offset(search->btf, t->name_off), search->kind))
			return true;
		t = btf__type_by_id(search->btf, t->type);
	}
	if (!t)
		return false;
	if (btf_is_array(t)) {
		bytes = btf__resolve_size(search->btf, btf_array(t)->type);
		if (bytes <= 0)
			return false;
		if (search->depth)
			search->path[search->depth - 1].array = true;
		return find_lock(search, btf_array(t)->type, offset % bytes, NULL);
	}
	if (!btf_is_composite(t))
		return false;
	if (!offset && is_lock_type(btf__name_by_offset(search->btf, t->name_off), search->kind))
		return true;
	return find_in_members(search, t, offset, owner);
}

static void join(char *text, size_t room, const char *begin, const struct step *steps, int count)
{
	int at = snprintf(text, room, "%s", begin);

	for (int i = 0; i < count && at >= 0 && (size_t)at < room; i++)
		at += snprintf(text + at, room - at, "%s%s%s", at ? "." : "", steps[i].member,
			       steps[i].array ? "[]" : "");
}

bool member_lock_at(struct type outer, uint32_t offset, int kind, struct lock_member *member)
{
	struct search search = { .btf = outer.btf, .kind = kind };
	int from = -1;

	types_plain(&outer);
	if (kind < 0 || kind > LOCK_KIND_UNKNOWN || !find_lock(&search, outer.id, offset, NULL))
		return false;
	for (int i = 0; i < search.depth; i++)
		if (search.path[i].owner && (from < 0 || !is_carrier(search.path[i].owner)))
			from = i;
	if (from < 0)
		return false;
	member->outer = outer;
	snprintf(member->type, sizeof(member->type), "%s", types_name(outer));
	join(member->member, sizeof(member->member), "", search.path, search.depth);
	join(member->name, sizeof(member->name), search.path[from].owner, &search.path[from],
	     search.depth - from);
	return true;
}

bool member_is_lock(struct type type, int kind)
{
	struct search search = { .btf = type.btf, .kind = kind };

	return find_lock(&search, type.id, 0, NULL) && !search.depth;
}
