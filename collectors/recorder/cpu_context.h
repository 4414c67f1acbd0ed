/* SPDX-License-Identifier: BSD-2-Clause */
/* Where programs find what a CPU executes (bpf/common/cpu_context.h). */
#ifndef SEEKMETER_CPU_CONTEXT_PLACES_H
#define SEEKMETER_CPU_CONTEXT_PLACES_H

#include <stdbool.h>
#include <stdint.h>

struct btf;
struct cpu_places;

/*
 * What an object's cpu_places is to be, before it is loaded. Found once; takes some milliseconds. If the kernel hides a part
 * of it, programs see contexts as unknown.
 */
struct cpu_places cpu_context_places(void);

/*
 * The offset of a per-CPU variable of the kernel, and the bytes and the type of it. False: BTF has no such variable.
 * bytes and type may be NULL.
 */
bool cpu_variable_at(const struct btf *btf, const char *name, uint32_t *at, uint32_t *bytes,
		     uint32_t *type);

#endif
