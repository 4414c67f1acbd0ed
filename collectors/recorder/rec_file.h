/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One table on disk, NAME.rec: a JSON header that describes the record, then packed blocks of fixed-size records. A block
 * is written when REC_BLOCK_BYTES of rows are gathered, and at each rec_files_flush(): a killed recorder loses the rows
 * since then.
 */
#ifndef SEEKMETER_REC_FILE_H
#define SEEKMETER_REC_FILE_H

#include <stddef.h>
#include <stdint.h>

#define REC_BLOCK_BYTES	    (256UL << 10)
#define REC_BLOCK_BYTES_MAX (1UL << 20) /* of rows in a block, for readers */

struct btf;
struct collector_state;
struct options;
struct rec_file;

/*
 * Creates TABLE.rec in the output directory. Its header describes `struct_name` of the BPF object's own `btf`: the
 * layout is written once, in a header below bpf/. An enum member's names come from BTF as well, lower case and without
 * the prefix common to all of them (BLOCK_OP_READ -> "read"). flag_enum, or NULL, is one more enum: its values name
 * the bits of a mask. NULL on failure, with errno set.
 */
struct rec_file *rec_file_open(const struct options *options, const char *table,
			       const struct btf *btf, const char *struct_name,
			       const char *flag_enum);
/* The same for a table without a BPF object: the header's JSON as it stands. */
struct rec_file *rec_file_open_json(const struct options *options, const char *table,
				    const char *json, size_t record_bytes);
/* Sets the function that says how many events a record stands for; without one, a record is one event. */
void rec_file_events(struct rec_file *file, uint64_t (*events)(const void *record));
/* Sets a function that is called for each record that could not be written. */
void rec_file_unwritten(struct rec_file *file, void (*unwritten)(const void *record));
/*
 * Takes whole records, for any thread; returns how many were taken, and the caller adds their events to
 * state->recorded. What is given up, now or as its block can't be written, is counted, in events, in state->lost: "no
 * room", "disk full" or "write failed"; of the latter, the events are subtracted from state->recorded. The file always
 * ends on a block.
 */
size_t rec_file_write(struct rec_file *file, struct collector_state *state, const void *records,
		      size_t count);
/* Writes the rows that all open files have gathered. */
void rec_files_flush(void);
/*
 * With --ring: writes what the open files have gathered, and goes on with each table in a new file in this directory: all
 * or none. -1: none, errno is set. Not for a table that stays.
 */
int rec_files_move(int dir_fd);
void rec_file_stay(struct rec_file *file);
void rec_file_close(struct rec_file *file, struct collector_state *state);

#endif
