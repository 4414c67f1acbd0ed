// SPDX-License-Identifier: BSD-2-Clause
/*
 * One table on disk: a header that describes the record, then records. This is the only writer of such headers in C.
 *
 *   "SKMREC01", u32 length of the JSON, u32 zero, JSON, zeros to a multiple of 8, records to the end
 *
 * The layout comes from the BPF object's BTF, so it can't differ from what the BPF program writes.
 */
#include "rec_file.h"

#include <bpf/btf.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collector.h"
#include "options.h"
#include "room.h"

struct rec_file {
	int fd;
	size_t record_bytes;
	off_t end; /* always on a record */
	uint64_t (*events)(const void *record);
};

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
	fprintf(out,
		"{\"table\":\"%s\",\"record_bytes\":%u,\"byte_order\":\"%s\",\"clock\":\"CLOCK_MONOTONIC\","
		"\"bin_ns\":%llu,\"fields\":[",
		table, type->size, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big",
		(unsigned long long)options->bin_ns);
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

struct rec_file *rec_file_open_json(const struct options *options, const char *table,
				    const char *json, size_t record_bytes)
{
	size_t json_bytes = strlen(json);
	size_t total = (16 + json_bytes + 7) / 8 * 8;
	uint32_t length = json_bytes;
	struct rec_file *file = calloc(1, sizeof(*file));
	char *header = calloc(1, total);
	bool room = room_take(total);
	char name[64];

	if (!file || !header)
		goto fail;
	memcpy(header, "SKMREC01", 8);
	memcpy(header + 8, &length, sizeof(length));
	memcpy(header + 16, json, json_bytes);
	snprintf(name, sizeof(name), "%s.rec", table);
	file->record_bytes = record_bytes;
	file->fd = new_file(options->out_fd, name);
	if (file->fd < 0)
		goto fail;
	if (write(file->fd, header, total) != (ssize_t)total) {
		close(file->fd);
		goto fail;
	}
	file->end = total;
	if (room)
		room_settle(total);
	free(header);
	return file;
fail:
	if (room)
		room_settle(total);
	free(header);
	free(file);
	return NULL;
}

struct rec_file *rec_file_open(const struct options *options, const char *table,
			       const struct btf *btf, const char *struct_name,
			       const char *flag_enum)
{
	struct rec_file *file = NULL;
	size_t record_bytes = 0, size = 0;
	char *json = NULL;
	FILE *out = open_memstream(&json, &size);
	int err;

	if (!out)
		return NULL;
	err = describe(out, options, table, btf, struct_name, flag_enum, &record_bytes);
	if (fclose(out))
		err = -1;
	if (err)
		errno = EINVAL; /* the object has no such struct, or a member of a kind no reader knows */
	else
		file = rec_file_open_json(options, table, json, record_bytes);
	free(json);
	return file;
}

void rec_file_events(struct rec_file *file, uint64_t (*events)(const void *record))
{
	file->events = events;
}

static void count_lost(const struct rec_file *file, struct collector_state *state,
		       const char *reason, const char *records, size_t count)
{
	uint64_t lost = file->events ? 0 : count;

	for (size_t i = 0; file->events && i < count; i++)
		lost += file->events(records + i * file->record_bytes);
	if (lost)
		reason_add(state->lost, reason, lost);
}

size_t rec_file_write(struct rec_file *file, struct collector_state *state, const void *records,
		      size_t count)
{
	size_t want = count * file->record_bytes, done = 0, whole;
	int error;

	if (!room_take(want)) {
		count_lost(file, state, "no room", records, count);
		return 0;
	}
	while (done < want) {
		ssize_t n = pwrite(file->fd, (const char *)records + done, want - done,
				   file->end + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += n;
	}
	error = errno;
	room_settle(want);
	whole = done / file->record_bytes;
	if (whole < count)
		count_lost(file, state,
			   error == ENOSPC || error == EDQUOT ? "disk full" : "write failed",
			   (const char *)records + whole * file->record_bytes, count - whole);
	file->end += whole * file->record_bytes;
	/* A torn record at the end is overwritten by the next write, or cut off by close. */
	return whole;
}

void rec_file_close(struct rec_file *file, struct collector_state *state)
{
	if (!file)
		return;
	if (ftruncate(file->fd, file->end))
		reason_add(state->notes, "table not cut to whole records", 1);
	if (close(file->fd))
		reason_add(state->lost, "write failed", 1);
	free(file);
}
