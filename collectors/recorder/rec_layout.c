// SPDX-License-Identifier: BSD-2-Clause
/* The header's JSON of a table, from the BPF object's BTF: it can't differ from what the BPF program writes. */
#include "rec_layout.h"

#include <bpf/btf.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collector.h"
#include "options.h"

/* A member's type in the header's terms. */
struct member_type {
	char name[8];
	uint32_t bytes;
	uint32_t count;	       /* elements of an array; 1: no array */
	const char *enum_name; /* NULL: not an enum */
};

static const struct btf_type *resolve(const struct btf *btf, uint32_t id)
{
	const struct btf_type *type = btf__type_by_id(btf, id);

	while (type && (btf_is_mod(type) || btf_is_typedef(type)))
		type = btf__type_by_id(btf, type->type);
	return type;
}

static int member_type(const struct btf *btf, uint32_t id, struct member_type *out)
{
	const struct btf_type *type = resolve(btf, id);

	out->count = 1;
	out->enum_name = NULL;
	if (type && btf_is_array(type)) {
		out->count = btf_array(type)->nelems;
		type = resolve(btf, btf_array(type)->type);
	}
	if (type && btf_is_enum(type)) {
		out->enum_name = btf__name_by_offset(btf, type->name_off);
		out->bytes = type->size;
		snprintf(out->name, sizeof(out->name), "u%u", type->size * 8);
		return 0;
	}
	if (!type || !btf_is_int(type))
		return -1;
	out->bytes = type->size * out->count;
	if (strcmp(btf__name_by_offset(btf, type->name_off), "char") == 0)
		snprintf(out->name, sizeof(out->name), "char");
	else
		snprintf(out->name, sizeof(out->name), "%c%u",
			 btf_int_encoding(type) & BTF_INT_SIGNED ? 'i' : 'u', type->size * 8);
	return 0;
}

/* "block_op": {"0": "read", …}, without the prefix all names share. */
static int write_enum(FILE *out, const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_ENUM);
	const struct btf_type *type;
	const struct btf_enum *values;
	size_t prefix = 0;

	if (id < 0)
		return -1;
	type = btf__type_by_id(btf, id);
	values = btf_enum(type);
	if (btf_vlen(type) > 1) {
		const char *first = btf__name_by_offset(btf, values[0].name_off);

		prefix = strlen(first);
		for (int i = 1; i < btf_vlen(type); i++) {
			const char *other = btf__name_by_offset(btf, values[i].name_off);
			size_t same = 0;

			while (same < prefix && first[same] == other[same])
				same++;
			prefix = same;
		}
		while (prefix && first[prefix - 1] != '_')
			prefix--;
	}
	fprintf(out, "\"%s\":{", name);
	for (int i = 0; i < btf_vlen(type); i++) {
		const char *value = btf__name_by_offset(btf, values[i].name_off) + prefix;

		fprintf(out, "%s\"%d\":\"", i ? "," : "", values[i].val);
		for (; *value; value++)
			fputc(tolower((unsigned char)*value), out);
		fputc('"', out);
	}
	fputc('}', out);
	return 0;
}

void rec_layout_begin(FILE *out, const struct options *options, const char *table,
		      size_t record_bytes)
{
	fprintf(out,
		"{\"table\":\"%s\",\"record_bytes\":%zu,\"byte_order\":\"%s\",\"clock\":\"CLOCK_MONOTONIC\","
		"\"bin_ns\":%llu,\"fields\":[",
		table, record_bytes, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big",
		(unsigned long long)options->bin_ns);
}

static int describe(FILE *out, const struct options *options, const char *table,
		    const struct btf *btf, const char *struct_name, const char *flag_enum,
		    size_t *record_bytes)
{
	int id = btf__find_by_name_kind(btf, struct_name, BTF_KIND_STRUCT);
	const struct btf_type *type;
	const char *enums[MAX_REASONS];
	int enum_count = 0;

	if (id < 0)
		return -1;
	type = btf__type_by_id(btf, id);
	*record_bytes = type->size;
	rec_layout_begin(out, options, table, type->size);
	for (int i = 0; i < btf_vlen(type); i++) {
		const struct btf_member *member = btf_members(type) + i;
		struct member_type shape;

		if (member_type(btf, member->type, &shape))
			return -1;
		fprintf(out, "%s{\"name\":\"%s\",\"offset\":%u,\"bytes\":%u,\"type\":\"%s\"",
			i ? "," : "", btf__name_by_offset(btf, member->name_off),
			btf_member_bit_offset(type, i) / 8, shape.bytes, shape.name);
		if (shape.count > 1 && strcmp(shape.name, "char"))
			fprintf(out, ",\"count\":%u", shape.count);
		if (shape.enum_name) {
			fprintf(out, ",\"enum\":\"%s\"", shape.enum_name);
			if (enum_count < MAX_REASONS)
				enums[enum_count++] = shape.enum_name;
		}
		fputc('}', out);
	}
	fputs("],\"enums\":{", out);
	if (flag_enum && enum_count < MAX_REASONS)
		enums[enum_count++] = flag_enum;
	for (int i = 0; i < enum_count; i++) {
		if (i)
			fputc(',', out);
		if (write_enum(out, btf, enums[i]))
			return -1;
	}
	fputs("}}", out);
	return ferror(out) ? -1 : 0;
}

char *rec_layout_json(const struct options *options, const char *table, const struct btf *btf,
		      const char *struct_name, const char *flag_enum, size_t *record_bytes)
{
	char *json = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&json, &size);
	int err;

	if (!out)
		return NULL;
	err = describe(out, options, table, btf, struct_name, flag_enum, record_bytes);
	if (fclose(out))
		err = -1;
	if (!err)
		return json;
	free(json);
	errno = EINVAL; /* the object has no such struct, or a member of a kind no reader knows */
	return NULL;
}
