// SPDX-License-Identifier: BSD-2-Clause
/*
 * BTF of the kernel and its modules: types and functions by name, members, sizes.
 *
 * The BTF (some 130,000 types) is read once and indexed by the names of structs, unions and functions, as libbpf's own
 * search walks through all types. A module loaded later is not known.
 */
#include "btf_type.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "recorder/hash.h"

#define MAX_MODULES 512
#define MAX_DEPTH   12

/* A named type, in a list of those whose names have one key. */
struct named {
	uint32_t id;
	uint32_t next; /* in names[]; 0: the last */
	uint16_t btf;  /* in btfs[] */
	uint16_t kind;
};

struct name_list {
	uint64_t key;
	uint64_t first; /* in names[] */
};

static struct btf *btfs[1 + MAX_MODULES]; /* the kernel's own first */
static int btf_count;
static struct hash lists = HASH(struct name_list);
static struct named *names; /* names[0] is not used */
static size_t name_count, name_room;
/* Bit set: this type is a member of a struct. */
static uint8_t *member_bits[1 + MAX_MODULES];

static bool add_name(const char *name, uint32_t id, int btf, int kind)
{
	struct name_list *list;
	bool added;

	if (name_count >= name_room) {
		size_t room = name_room ? name_room * 2 : 1 << 16;
		struct named *more = realloc(names, room * sizeof(*more));

		if (!more)
			return false;
		names = more;
		name_room = room;
	}
	list = hash_add(&lists, hash_text(KEY_OF_NOTHING, name), &added);
	if (!list)
		return false;
	names[name_count] = (struct named){ id, list->first, btf, kind };
	list->first = name_count++;
	return true;
}

static bool add_names(int at, uint32_t first)
{
	const struct btf *btf = btfs[at];

	for (uint32_t id = first; id < btf__type_cnt(btf); id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);
		int kind = btf_kind(t);

		if (!t->name_off ||
		    (kind != BTF_KIND_STRUCT && kind != BTF_KIND_UNION && kind != BTF_KIND_FUNC))
			continue;
		if (!add_name(btf__name_by_offset(btf, t->name_off), id, at, kind))
			return false;
	}
	return true;
}

static void load_modules(void)
{
	DIR *dir = opendir("/sys/kernel/btf");
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) && btf_count <= MAX_MODULES) {
		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "vmlinux"))
			continue;
		/* A module being unloaded, or built for another kernel, is left out. */
		btfs[btf_count] = btf__load_module_btf(entry->d_name, btfs[0]);
		if (btfs[btf_count])
			btf_count++;
	}
	if (dir)
		closedir(dir);
}

static uint8_t *find_members(const struct btf *btf, uint32_t first);

bool types_load(void)
{
	if (btf_count)
		return true;
	btfs[0] = btf__load_vmlinux_btf();
	if (!btfs[0])
		return false;
	btf_count = 1;
	member_bits[0] = find_members(btfs[0], 1);
	load_modules();
	name_count = 1;
	for (int i = 0; i < btf_count; i++)
		if (!add_names(i, i ? btf__type_cnt(btfs[0]) : 1))
			break;
	return true;
}

void types_unload(void)
{
	while (btf_count) {
		btf_count--;
		btf__free(btfs[btf_count]);
		free(member_bits[btf_count]);
		member_bits[btf_count] = NULL;
	}
	free(names);
	names = NULL;
	name_count = name_room = 0;
	hash_clear(&lists);
}

int types_find(const char *name, int btf_kind, struct type *types, int room)
{
	struct name_list *list = hash_find(&lists, hash_text(KEY_OF_NOTHING, name));
	int count = 0;

	for (uint32_t i = list ? list->first : 0; i && count < room; i = names[i].next) {
		struct type type = { btfs[names[i].btf], names[i].id };

		if (names[i].kind == btf_kind && !strcmp(types_name(type), name))
			types[count++] = type;
	}
	return count;
}

const struct btf *types_vmlinux(void)
{
	return btfs[0];
}

const struct btf_type *types_plain(struct type *type)
{
	const struct btf_type *t = btf__type_by_id(type->btf, type->id);

	while (t && (btf_is_mod(t) || btf_is_typedef(t))) {
		type->id = t->type;
		t = btf__type_by_id(type->btf, type->id);
	}
	return t;
}

bool types_pointed_to(struct type pointer, struct type *to)
{
	const struct btf_type *t = types_plain(&pointer);

	if (!t || !btf_is_ptr(t))
		return false;
	*to = (struct type){ pointer.btf, t->type };
	t = types_plain(to);
	return t && btf_is_composite(t);
}

const char *types_name(struct type type)
{
	const struct btf_type *t = btf__type_by_id(type.btf, type.id);
	const char *name = t ? btf__name_by_offset(type.btf, t->name_off) : NULL;

	return name ? name : "";
}

uint32_t types_bytes(struct type type)
{
	long long bytes = btf__resolve_size(type.btf, type.id);

	return bytes > 0 ? bytes : 0;
}

bool types_open_ended(const struct btf *btf, uint32_t id)
{
	struct type type = { btf, id };
	const struct btf_type *t = types_plain(&type);

	return t && btf_is_array(t) && !btf_array(t)->nelems;
}

bool types_member(struct type in, const char *name, struct type *member, uint32_t *offset)
{
	const struct btf_type *t = types_plain(&in);

	for (int i = 0; t && btf_is_composite(t) && i < btf_vlen(t); i++) {
		const struct btf_member *m = &btf_members(t)[i];
		const char *own = btf__name_by_offset(in.btf, m->name_off);

		*member = (struct type){ in.btf, m->type };
		*offset = btf_member_bit_offset(t, i) / 8;
		if (own && !strcmp(own, name))
			return true;
	}
	return false;
}

/* A bit for each type of this BTF from `first` on (a module's BTF goes on from the kernel's). NULL: no memory. */
static uint8_t *find_members(const struct btf *btf, uint32_t first)
{
	uint8_t *bits = calloc(btf__type_cnt(btf) / 8 + 1, 1);

	for (uint32_t id = first; bits && id < btf__type_cnt(btf); id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		for (int i = 0; btf_is_composite(t) && i < btf_vlen(t); i++) {
			struct type member = { btf, btf_members(t)[i].type };
			const struct btf_type *m = types_plain(&member);

			while (m && btf_is_array(m)) {
				member.id = btf_array(m)->type;
				m = types_plain(&member);
			}
			bits[member.id / 8] |= 1 << member.id % 8;
		}
	}
	return bits;
}

static bool has_member_bit(int btf, uint32_t id)
{
	return member_bits[btf] && (member_bits[btf][id / 8] & (1 << id % 8));
}

bool types_is_member(struct type type)
{
	uint32_t kernel_types = btf__type_cnt(btfs[0]);

	types_plain(&type);
	if (type.id < kernel_types && has_member_bit(0, type.id))
		return true;
	for (int i = 1; i < btf_count; i++) {
		if (btfs[i] != type.btf)
			continue;
		if (!member_bits[i])
			member_bits[i] = find_members(type.btf, kernel_types);
		return has_member_bit(i, type.id);
	}
	return false;
}

static bool find_embedded(struct type in, const char *name, uint32_t base, int depth,
			  uint32_t *offset)
{
	const struct btf_type *t = types_plain(&in);

	if (!t || !btf_is_composite(t) || depth > MAX_DEPTH)
		return false;
	if (!strcmp(types_name(in), name)) {
		*offset = base;
		return true;
	}
	for (int i = 0; i < btf_vlen(t); i++) {
		struct type member = { in.btf, btf_members(t)[i].type };

		if (find_embedded(member, name, base + btf_member_bit_offset(t, i) / 8, depth + 1,
				  offset))
			return true;
	}
	return false;
}

bool types_embedded(struct type in, const char *name, uint32_t *offset)
{
	return find_embedded(in, name, 0, 0, offset);
}
