/* SPDX-License-Identifier: BSD-2-Clause */
/* BTF of the kernel and its modules: types and functions by name, members, sizes. */
#ifndef SEEKMETER_BTF_TYPE_H
#define SEEKMETER_BTF_TYPE_H

#include <bpf/btf.h>
#include <stdbool.h>
#include <stdint.h>

struct type {
	const struct btf *btf;
	uint32_t id;
};

/* Reads the BTF, once. False: the kernel has none. */
bool types_load(void);
void types_unload(void);
/*
 * The structs, unions or functions (btf_kind: BTF_KIND_STRUCT, …) of this name: modules may define several. Returns how
 * many were put into types[], which has room for `room`.
 */
int types_find(const char *name, int btf_kind, struct type *types, int room);
/* The BTF of the kernel itself, without modules. */
const struct btf *types_vmlinux(void);
/* The type without const, volatile and typedefs; *type becomes that type. */
const struct btf_type *types_plain(struct type *type);
/* The struct or union that a pointer points to. False: `pointer` is no pointer to one. */
bool types_pointed_to(struct type pointer, struct type *to);
/* The type's name; "" if it has none. */
const char *types_name(struct type type);
/* The type's size; 0 if it has none. */
uint32_t types_bytes(struct type type);
/* A member of the struct itself, not of structs in it. False: it has no such member. */
bool types_member(struct type in, const char *name, struct type *member, uint32_t *offset);
/* Is the type an array without a length, as at the end of a struct? */
bool types_open_ended(const struct btf *btf, uint32_t id);
/* Is the type a member of another struct of the same BTF? Then it may never be an object by itself. */
bool types_is_member(struct type type);
/* The offset of the first struct of this name in the struct, at any depth. False: there is none. */
bool types_embedded(struct type in, const char *name, uint32_t *offset);

#endif
