// SPDX-License-Identifier: BSD-2-Clause
/*
 * One cell of iomatrix: a file of one size, written and read in records of one size. An error ends the program.
 */
#ifndef GENERATORS_IOMATRIX_CELL_H
#define GENERATORS_IOMATRIX_CELL_H

#include <stdbool.h>
#include <stdint.h>

#define KIB	       1024
#define RECORD_KIB_MAX 1024UL
#define TOP	       "iomatrix" /* the directory that is made */

enum operation { WRITE, REWRITE, READ, REREAD, RANDOM_WRITE, RANDOM_READ, OPERATIONS };

extern const char *const operation_names[OPERATIONS];

struct cell {
	/* the caller's to set: */
	uint64_t file_kib; /* a multiple of record_kib */
	uint64_t record_kib;
	uint64_t seed;
	bool flush; /* an fsync at the end of each writing operation, in its time */
	int dir_fd;
	/* cell.c's own: */
	uint64_t records;
	uint32_t *order; /* of the random operations */
	uint64_t key;	 /* of the contents that the file has now; each writing pass has another */
	uint64_t passes; /* writing passes so far */
	int fd;
};

/* Once, before the first cell. */
void cells_init(void);

void cell_begin(struct cell *cell);
/* The operation once; returns the time of its reads or writes. The first one is WRITE. */
int64_t cell_run(struct cell *cell, enum operation operation);
uint64_t cell_inode(const struct cell *cell);
/* The file as a whole must be what was written last. */
void cell_verify(struct cell *cell);
/* The file is removed. */
void cell_end(struct cell *cell);

#endif
