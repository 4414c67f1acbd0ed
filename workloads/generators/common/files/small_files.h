// SPDX-License-Identifier: BSD-2-Clause
/*
 * One createdelete thread's small files in a directory, and their operations: create, fsync, rename, delete. The struct
 * keeps which files exist, their names and the key of their contents. An error ends the program. Threads may share a
 * directory: names differ by thread.
 */
#ifndef GENERATORS_SMALL_FILES_H
#define GENERATORS_SMALL_FILES_H

#include <stdint.h>

#include "common/stats/rng.h"

#define SMALL_FILE_BYTES_MAX 8192

enum small_file_operation { CREATE, FSYNC, RENAME, DELETE, SMALL_FILE_OPERATIONS };

struct times {
	uint64_t count;
	int64_t total_ns;
	int64_t longest_ns;
};

/* A file that was created; number and renames give its name. */
struct small_file {
	uint16_t bytes;
	uint16_t renames;
};

struct small_files {
	int dir_fd;
	unsigned long thread; /* part of the names */
	uint64_t contents;    /* the same number gives the same contents */
	unsigned long fsync_pct;
	struct rng rng;
	struct small_file *files; /* by number */
	uint32_t n_files;
	uint32_t *living; /* numbers of the files that exist, unsorted */
	uint32_t n_living;
	struct times *times; /* array by operation to which times are added */
};

/* Allocates room for MOST files and sets n_files and n_living; the caller sets all other members. */
void small_files_init(struct small_files *mine, unsigned long most);
void small_files_free(struct small_files *mine);

/*
 * Creates a file of 1 to SMALL_FILE_BYTES_MAX bytes, with an fsync in fsync_pct percent of the calls. Returns the
 * file's bytes. CREATE counts open, write and close; FSYNC counts the fsync.
 */
uint64_t small_files_create(struct small_files *mine);

/* Each works on a random file; n_living must be above 0. */
void small_files_rename(struct small_files *mine);
void small_files_delete(struct small_files *mine);

/* Compares the file living[INDEX] with what was written to it. Returns its size in bytes. */
uint64_t small_files_verify(struct small_files *mine, uint32_t index);

#endif
