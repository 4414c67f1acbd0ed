// SPDX-License-Identifier: BSD-2-Clause
/* Detects BPF features by loading small programs and maps, and by the kernel's types; see features.h. */
#include "features.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "refusal.h"

#define SET(reg, value)                                                               \
	{                                                                             \
		.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (reg), .imm = (value) \
	}
#define COPY(to, from)                                                                  \
	{                                                                               \
		.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (to), .src_reg = (from) \
	}
#define CALL(helper)                                        \
	{                                                   \
		.code = BPF_JMP | BPF_CALL, .imm = (helper) \
	}
#define EXIT()                             \
	{                                  \
		.code = BPF_JMP | BPF_EXIT \
	}

static bool loads(const struct bpf_insn *program, size_t count)
{
	int fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "try", "Dual BSD/GPL", program, count,
			       NULL);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

bool features_cmpxchg(void)
{
	const struct bpf_insn program[] = {
		SET(BPF_REG_0, 0),
		{ .code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_10, .off = -8 },
		{ .code = BPF_STX | BPF_ATOMIC | BPF_DW,
		  .dst_reg = BPF_REG_10,
		  .src_reg = BPF_REG_0,
		  .off = -8,
		  .imm = BPF_CMPXCHG },
		SET(BPF_REG_0, 0),
		EXIT(),
	};

	return loads(program, sizeof(program) / sizeof(program[0]));
}

/* A task storage map of ints; -1: the kernel has no such map. */
static int task_map(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC);
	struct btf *btf = btf__new_empty();
	int number, fd = -1;

	if (!btf)
		return -1;
	number = btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	if (number > 0 && !btf__load_into_kernel(btf)) {
		opts.btf_fd = btf__fd(btf);
		opts.btf_key_type_id = opts.btf_value_type_id = number;
		fd = bpf_map_create(BPF_MAP_TYPE_TASK_STORAGE, "try", 4, 4, 0, &opts);
	}
	btf__free(btf);
	refusal_forget(); /* a failed trial is no reason to be off */
	return fd;
}

bool features_task_storage(void)
{
	int map = task_map();
	const struct bpf_insn program[] = {
		CALL(BPF_FUNC_get_current_task_btf),
		COPY(BPF_REG_2, BPF_REG_0),
		{ .code = BPF_LD | BPF_DW | BPF_IMM,
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_FD,
		  .imm = map },
		{ 0 },
		SET(BPF_REG_3, 0),
		SET(BPF_REG_4, 0),
		CALL(BPF_FUNC_task_storage_get),
		SET(BPF_REG_0, 0),
		EXIT(),
	};
	bool works;

	if (map < 0)
		return false;
	works = loads(program, sizeof(program) / sizeof(program[0]));
	close(map);
	return works;
}

int features_enumerator(const struct btf *btf, const char *name)
{
	uint32_t types = btf__type_cnt(btf);

	for (uint32_t id = 1; id < types; id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);

		if (!btf_is_enum(type))
			continue;
		for (int i = 0; i < btf_vlen(type); i++)
			if (!strcmp(btf__name_by_offset(btf, btf_enum(type)[i].name_off), name))
				return btf_enum(type)[i].val;
	}
	return -1;
}

/* The tracepoint's prototype; NULL: no such tracepoint. Its first parameter is the tracepoint's own data, not a program's. */
static const struct btf_type *arguments_of(const struct btf *btf, const char *tracepoint)
{
	const struct btf_type *type;
	char name[128];
	int id;

	snprintf(name, sizeof(name), "btf_trace_%s", tracepoint);
	id = btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF);
	type = id > 0 ? btf__type_by_id(btf, id) : NULL; /* typedef of a pointer to a function */
	type = type ? btf__type_by_id(btf, type->type) : NULL;
	type = type && btf_is_ptr(type) ? btf__type_by_id(btf, type->type) : NULL;
	return type && btf_is_func_proto(type) ? type : NULL;
}

int features_argument(const struct btf *btf, const char *tracepoint, const char *struct_name)
{
	const struct btf_type *type = arguments_of(btf, tracepoint), *argument;

	for (int i = 1; type && i < btf_vlen(type); i++) {
		argument = btf__type_by_id(btf, btf_params(type)[i].type);
		if (!argument || !btf_is_ptr(argument))
			continue;
		argument = btf__type_by_id(btf, argument->type);
		while (argument && (btf_is_mod(argument) || btf_is_typedef(argument)))
			argument = btf__type_by_id(btf, argument->type);
		if (argument && btf_is_struct(argument) &&
		    !strcmp(btf__name_by_offset(btf, argument->name_off), struct_name))
			return i - 1;
	}
	return -1;
}

bool features_pointer(const struct btf *btf, const char *tracepoint, int position)
{
	const struct btf_type *type = arguments_of(btf, tracepoint), *argument;

	if (!type || position + 1 >= btf_vlen(type))
		return false;
	argument = btf__type_by_id(btf, btf_params(type)[position + 1].type);
	return argument && btf_is_ptr(argument);
}

int features_arguments(const struct btf *btf, const char *tracepoint)
{
	const struct btf_type *type = arguments_of(btf, tracepoint);

	return type ? btf_vlen(type) - 1 : -1;
}

bool features_has_member(const struct btf *btf, const char *struct_name, const char *member)
{
	int id = btf__find_by_name_kind(btf, struct_name, BTF_KIND_STRUCT);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, id) : NULL;

	for (int i = 0; type && i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_members(type)[i].name_off), member))
			return true;
	return false;
}

int features_parameters(const struct btf *btf, const char *function)
{
	int id = btf__find_by_name_kind(btf, function, BTF_KIND_FUNC);
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, id) : NULL;

	type = type ? btf__type_by_id(btf, type->type) : NULL;
	return type ? btf_vlen(type) : -1;
}
