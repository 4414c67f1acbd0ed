/* SPDX-License-Identifier: BSD-2-Clause */
/* The header's JSON of a table whose records a BPF program writes. */
#ifndef SEEKMETER_REC_LAYOUT_H
#define SEEKMETER_REC_LAYOUT_H

#include <stddef.h>

struct btf;
struct options;

/* See rec_file_open(). To be freed; NULL on failure, with errno set. */
char *rec_layout_json(const struct options *options, const char *table, const struct btf *btf,
		      const char *struct_name, const char *flag_enum, size_t *record_bytes);

#endif
