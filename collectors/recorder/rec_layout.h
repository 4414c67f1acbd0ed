/* SPDX-License-Identifier: BSD-2-Clause */
/* The header's JSON of a table. */
#ifndef SEEKMETER_REC_LAYOUT_H
#define SEEKMETER_REC_LAYOUT_H

#include <stddef.h>
#include <stdio.h>

struct btf;
struct options;

/* Begins the JSON of any table, up to and with the bracket of its fields. */
void rec_layout_begin(FILE *out, const struct options *options, const char *table,
		      size_t record_bytes);
/* Of a table whose records a BPF program writes: see rec_file_open(). To be freed; NULL on failure, with errno set. */
char *rec_layout_json(const struct options *options, const char *table, const struct btf *btf,
		      const char *struct_name, const char *flag_enum, size_t *record_bytes);

#endif
