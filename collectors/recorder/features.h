/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What can this kernel's BPF do that not all kernels' can? Found by its types and by trying, as distributions give old
 * kernels new features.
 */
#ifndef SEEKMETER_FEATURES_H
#define SEEKMETER_FEATURES_H

#include <stdbool.h>

/* Have programs compare-and-swap? */
bool features_cmpxchg(void);
/* May tracing programs keep data with a task? */
bool features_task_storage(void);

struct btf;
/* Which argument of the tracepoint, counted from 0, points to a struct of this name; -1: none, or no such tracepoint. */
int features_argument(const struct btf *btf, const char *tracepoint, const char *struct_name);
/* Is this argument of the tracepoint, counted from 0, a pointer, whatever to? */
bool features_pointer(const struct btf *btf, const char *tracepoint, int position);

#endif
