/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * BPF features that not all kernels have, detected by the kernel's types and by trial, never by version: distributions
 * give old kernels new features.
 */
#ifndef SEEKMETER_FEATURES_H
#define SEEKMETER_FEATURES_H

#include <stdbool.h>

/* True: programs can compare and swap (BPF_CMPXCHG). */
bool features_cmpxchg(void);
/* True: tracing programs can keep data with a task (BPF_MAP_TYPE_TASK_STORAGE). */
bool features_task_storage(void);

struct btf;
/* The argument of the tracepoint, from 0, that points to a struct of this name; -1: none, or no such tracepoint. */
int features_argument(const struct btf *btf, const char *tracepoint, const char *struct_name);
/* True: this argument of the tracepoint, from 0, is a pointer, to any type. */
bool features_pointer(const struct btf *btf, const char *tracepoint, int position);
/* How many arguments the tracepoint has; -1: no such tracepoint. */
int features_arguments(const struct btf *btf, const char *tracepoint);

/* The value of this name in whichever enum of the kernel has it; -1: none does. */
int features_enumerator(const struct btf *btf, const char *name);

/* True: the kernel's struct has this member. */
bool features_has_member(const struct btf *btf, const char *struct_name, const char *member);
/* How many parameters the kernel's function has; -1: no such function. */
int features_parameters(const struct btf *btf, const char *function);

#endif
