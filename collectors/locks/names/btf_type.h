/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's types, its own and its modules', from BTF. */
#ifndef SEEKMETER_LOCK_TYPES_H
#define SEEKMETER_LOCK_TYPES_H

#include <bpf/btf.h>
#include <stdbool.h>
#include <stdint.h>

struct type {
	const struct btf *btf;
	uint32_t id;
};

/* Reads them, once; false: the kernel has no BTF. */
bool types_load(void);
void types_unload(void);
/* The structs, unions or functions (BTF_KIND_…) of this name; there may be several. Returns how many were put in found. */
int types_find(const char *name, int btf_kind, struct type *found, int room);
/* The kernel's own. */
const struct btf *types_vmlinux(void);
/* Without const, typedef and the like. */
const struct btf_type *types_plain(struct type *type);
/* What a pointer points to, if that is a struct or a union. */
bool types_pointed_to(struct type pointer, struct type *to);
/* Its name; "": it has none. */
const char *types_name(struct type type);
uint32_t types_bytes(struct type type);
/* The struct's own member of this name; false: it has none. */
bool types_member(struct type in, const char *name, struct type *member, uint32_t *offset);
/* Whether it is an array without a length, as there are at the ends of structs. */
bool types_open_ended(const struct btf *btf, uint32_t id);
/* Whether it is a part of some other struct of the same BTF: it may be no object by itself then. */
bool types_is_part(struct type type);
/* Where in the struct there is a struct of this name, however deep; false: nowhere. */
bool types_embedded(struct type in, const char *name, uint32_t *offset);

#endif
