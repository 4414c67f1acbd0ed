// SPDX-License-Identifier: BSD-2-Clause
/*
 * The blk tracer's events in the running kernel's type information (BTF): their number in enum trace_type, which differs
 * between versions, and a check that their layout is that of linux/blktrace_api.h.
 */
#include "blktrace.h"

#include <bpf/btf.h>
#include <stdlib.h>
#include <string.h>

static int blk_type(const struct btf *btf)
{
	int id = btf__find_by_name_kind(btf, "trace_type", BTF_KIND_ENUM);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, id) : NULL;

	if (!type)
		return -1;
	for (int i = 0; i < btf_vlen(type); i++) {
		const struct btf_enum *value = btf_enum(type) + i;

		if (!strcmp(btf__name_by_offset(btf, value->name_off), "TRACE_BLK"))
			return value->val;
	}
	return -1;
}

static bool same_layout(const struct btf *btf)
{
	static const struct {
		const char *name;
		size_t offset;
	} fields[] = {
		{ "sector", offsetof(struct blk_io_trace, sector) },
		{ "bytes", offsetof(struct blk_io_trace, bytes) },
		{ "action", offsetof(struct blk_io_trace, action) },
		{ "pid", offsetof(struct blk_io_trace, pid) },
		{ "device", offsetof(struct blk_io_trace, device) },
		{ "cpu", offsetof(struct blk_io_trace, cpu) },
		{ "error", offsetof(struct blk_io_trace, error) },
		{ "pdu_len", offsetof(struct blk_io_trace, pdu_len) },
	};
	int id = btf__find_by_name_kind(btf, "blk_io_trace", BTF_KIND_STRUCT);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, id) : NULL;
	size_t same = 0;

	if (!type || type->size != sizeof(struct blk_io_trace))
		return false;
	for (int i = 0; i < btf_vlen(type); i++) {
		const char *name = btf__name_by_offset(btf, btf_members(type)[i].name_off);

		for (size_t f = 0; f < sizeof(fields) / sizeof(*fields); f++) {
			if (!strcmp(name, fields[f].name) &&
			    btf_member_bit_offset(type, i) == fields[f].offset * 8)
				same++;
		}
	}
	return same == sizeof(fields) / sizeof(*fields);
}

int kernel_blk_type(const char **why)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int type = -1;

	if (!btf) {
		*why = "no type information (/sys/kernel/btf/vmlinux)";
		return -1;
	}
	/* A kernel with the second version of the record writes that into the ring buffer. */
	if (!same_layout(btf) || btf__find_by_name_kind(btf, "blk_io_trace2", BTF_KIND_STRUCT) > 0)
		*why = "this kernel's blk tracer writes another record than blktrace's first version";
	else if ((type = blk_type(btf)) < 0)
		*why = "this kernel's type information has no blk tracer";
	btf__free(btf);
	return type;
}
