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
	/* set by the caller: */
	uint64_t file_kib; /* a multiple of record_kib */
	uint64_t record_kib;
	uint64_t seed;
	bool flush; /* an fsync at the end of each writing operation, in its time */
	int dir_fd;
	/* used by cell.c: */
	uint64_t records;
	uint32_t *order; /* record numbers in the order of the random operations */
	uint64_t key;	 /* key of the file's present contents; differs by writing pass */
	uint64_t passes; /* writing passes so far */
	int fd;
};

/* Makes the contents of all cells. To be called once, before the first cell. */
void cells_init(void);

void cell_begin(struct cell *cell);
/* Runs the operation once. Returns the time of its reads or writes in ns. The first operation must be WRITE. */
int64_t cell_run(struct cell *cell, enum operation operation);
uint64_t cell_inode(const struct cell *cell);
/* Compares the whole file with what was written last. */
void cell_verify(struct cell *cell);
/* Removes the file and frees the cell's memory. */
void cell_end(struct cell *cell);

#endif
