// SPDX-License-Identifier: BSD-2-Clause
/*
 * One filemark thread's files, and their operations: create, read whole, append, delete. All threads share the
 * directories; names differ by thread. The set keeps which of its files exist, their sizes, and the key of their
 * contents. An error ends the program.
 */
#ifndef GENERATORS_FILE_SET_H
#define GENERATORS_FILE_SET_H

#include <stdint.h>

#include "common/stats/rng.h"

#define FILE_SET_BYTES_MAX (1u << 30)
#define FILE_SET_IO_MAX	   (64 * 1024) /* bytes of one read(2) or write(2) */

enum file_operation { FILE_CREATE, FILE_READ, FILE_APPEND, FILE_DELETE, FILE_OPERATIONS };

struct file_times {
	uint64_t count;
	uint64_t bytes;
	int64_t total_ns;
	int64_t longest_ns;
};

struct set_file {
	uint32_t number; /* decides the file's name, directory and contents */
	uint32_t bytes;
};

/* Directories and sizes, the same for all threads. */
struct file_shape {
	uint64_t dirs;			/* "d00000" and so on, in the directory open as dir_fd */
	uint64_t low_bytes, high_bytes; /* size of a new file; an append keeps to high_bytes too */
	uint64_t io_bytes;
	uint64_t contents; /* the same number gives the same contents */
};

struct file_set {
	const struct file_shape *shape;
	int dir_fd;	      /* the caller's to set, and to close */
	unsigned long thread; /* part of the names */
	struct rng rng;
	struct set_file *files; /* the files that exist, unsorted */
	uint32_t n_files, room, n_made;
	uint64_t full; /* appends skipped, as the file has the largest size */
	struct file_times times[FILE_OPERATIONS];
};

void file_set_dirs(const struct file_shape *shape, int dir_fd);
void file_set_create(struct file_set *mine);

/* Each works on a random file; n_files must be above 0. */
void file_set_read(struct file_set *mine);
void file_set_append(struct file_set *mine);
void file_set_delete(struct file_set *mine);

/* Compares files[INDEX] with what was written to it. Returns its size in bytes. */
uint64_t file_set_verify(struct file_set *mine, uint32_t index);
void file_set_free(struct file_set *mine);

#endif
