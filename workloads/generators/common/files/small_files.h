// SPDX-License-Identifier: BSD-2-Clause
/*
 * One thread's small files in a directory: it creates, renames and deletes them, and knows which must be
 * there, under which name, and what is in them. An error ends the program. Threads may share a directory:
 * each has names of its own.
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

/* A file that was made; its name is made of its number and how often it was renamed. */
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
	uint32_t *living; /* numbers of the files that are there, in no order */
	uint32_t n_living;
	struct times *times; /* of each operation, where it is to be counted */
};

/* Room for as many files; everything else but n_files and n_living is the caller's to set. */
void small_files_init(struct small_files *mine, unsigned long most);
void small_files_free(struct small_files *mine);

/*
 * A file of 1 to SMALL_FILE_BYTES_MAX bytes, synced by the chance of fsync_pct. Returns its bytes. Its time is
 * that of open, write and close; an fsync is counted apart.
 */
uint64_t small_files_create(struct small_files *mine);

/* Any of the files that are there; there must be one. */
void small_files_rename(struct small_files *mine);
void small_files_delete(struct small_files *mine);

/* living[PLACE] must have its name and its contents. Returns its bytes. */
uint64_t small_files_verify(struct small_files *mine, uint32_t place);

#endif
