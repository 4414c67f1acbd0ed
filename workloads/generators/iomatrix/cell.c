// SPDX-License-Identifier: BSD-2-Clause
/* One cell of iomatrix: the six operations on one file in records of one size; see cell.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell.h"
#include "common/files/contents.h"
#include "common/session/fail.h"
#include "common/session/phases.h"
#include "common/stats/rng.h"

#define POOL_BYTES     (1024 * 1024) /* a record's contents begin at one of these offsets */
#define COMPARED_BYTES 16	     /* bytes compared of each record read in measured time */
#define FILE_NAME      TOP "/file"

const char *const operation_names[OPERATIONS] = { "write",  "rewrite",	    "read",
						  "reread", "random write", "random read" };

static char pool[POOL_BYTES + RECORD_KIB_MAX * KIB];
static char buffer[RECORD_KIB_MAX * KIB];

void cells_init(void)
{
	contents_init();
	contents_fill(pool, sizeof(pool));
}

static const char *contents_of(const struct cell *cell, uint64_t record)
{
	struct rng rng = { .state = cell->key + record };

	return pool + rng_below(&rng, POOL_BYTES);
}

static void write_record(const struct cell *cell, uint64_t record, off_t at)
{
	size_t bytes = cell->record_kib * KIB;
	const char *from = contents_of(cell, record);
	ssize_t done = at < 0 ? write(cell->fd, from, bytes) : pwrite(cell->fd, from, bytes, at);

	if (done < 0)
		fail_errno("cannot write", FILE_NAME);
	if ((size_t)done <
	    bytes) { /* probably a full disk: the next write then fails with ENOSPC */
		if (lseek(cell->fd, 0, SEEK_END) >= 0 && write(cell->fd, from, bytes) < 0)
			fail_errno("cannot write", FILE_NAME);
		fail(EXIT_RUN_FAILED, "%s: a write of %zu bytes wrote %zd; look in dmesg",
		     FILE_NAME, bytes, done);
	}
}

static void fail_wrong_contents(void)
{
	fail(EXIT_RUN_FAILED,
	     "%s: is not what was written; look in dmesg, and check the file system", FILE_NAME);
}

/* Reads one record and compares its first COMPARED bytes. */
static void read_record(const struct cell *cell, uint64_t record, off_t at, size_t compared)
{
	size_t bytes = cell->record_kib * KIB;
	ssize_t done = at < 0 ? read(cell->fd, buffer, bytes) : pread(cell->fd, buffer, bytes, at);

	if (done < 0)
		fail_errno("cannot read", FILE_NAME);
	if ((size_t)done < bytes || memcmp(buffer, contents_of(cell, record), compared) != 0)
		fail_wrong_contents();
}

static void open_file(struct cell *cell, int flags)
{
	cell->fd = openat(cell->dir_fd, "file", flags | O_CLOEXEC, 0644);
	if (cell->fd < 0)
		fail_errno(flags & O_CREAT ? "cannot create" : "cannot open", FILE_NAME);
}

static void close_file(struct cell *cell)
{
	if (close(cell->fd) != 0)
		fail_errno("cannot close", FILE_NAME);
}

static void remove_file(const struct cell *cell)
{
	if (unlinkat(cell->dir_fd, "file", 0) != 0)
		fail_errno("cannot remove", FILE_NAME);
}

/* Reads or writes each record of the file once. */
static void transfer(const struct cell *cell, enum operation operation)
{
	off_t record_bytes = (off_t)(cell->record_kib * KIB);

	for (uint64_t i = 0; i < cell->records; i++) {
		switch (operation) {
		case WRITE:
		case REWRITE:
			write_record(cell, i, -1);
			break;
		case READ:
		case REREAD:
			read_record(cell, i, -1, COMPARED_BYTES);
			break;
		case RANDOM_WRITE:
			write_record(cell, cell->order[i], cell->order[i] * record_bytes);
			break;
		default:
			read_record(cell, cell->order[i], cell->order[i] * record_bytes,
				    COMPARED_BYTES);
		}
	}
}

int64_t cell_run(struct cell *cell, enum operation operation)
{
	bool writes = operation == WRITE || operation == REWRITE || operation == RANDOM_WRITE;
	int64_t start_ns;
	int64_t end_ns;

	if (writes) {
		struct rng rng = { .state = cell->seed + ++cell->passes };

		cell->key = rng_next(&rng);
	}
	if (operation == WRITE && cell->passes > 1)
		remove_file(cell);
	open_file(cell, operation == WRITE ? O_WRONLY | O_CREAT | O_EXCL
			: writes	   ? O_WRONLY
					   : O_RDONLY);
	start_ns = now_ns();
	transfer(cell, operation);
	if (writes && cell->flush && fsync(cell->fd) != 0)
		fail_errno("cannot sync", FILE_NAME);
	end_ns = now_ns();
	close_file(cell);
	return end_ns - start_ns;
}

uint64_t cell_inode(const struct cell *cell)
{
	struct stat status;

	if (fstatat(cell->dir_fd, "file", &status, 0) != 0)
		fail_errno("cannot stat", FILE_NAME);
	return status.st_ino;
}

/* Sets `order` to a random permutation of the records (Fisher and Yates). */
static void shuffle(struct cell *cell)
{
	struct rng rng = { .state = cell->seed + cell->file_kib * 2048 + cell->record_kib };

	for (uint64_t i = 0; i < cell->records; i++)
		cell->order[i] = (uint32_t)i;
	for (uint64_t i = cell->records - 1; i > 0; i--) {
		uint64_t other = rng_below(&rng, i + 1);
		uint32_t swapped = cell->order[i];

		cell->order[i] = cell->order[other];
		cell->order[other] = swapped;
	}
}

void cell_begin(struct cell *cell)
{
	cell->records = cell->file_kib / cell->record_kib;
	cell->order = must_alloc(malloc(cell->records * sizeof(*cell->order)));
	shuffle(cell);
}

void cell_verify(struct cell *cell)
{
	char more;

	open_file(cell, O_RDONLY);
	for (uint64_t i = 0; i < cell->records; i++)
		read_record(cell, i, -1, cell->record_kib * KIB);
	if (read(cell->fd, &more, 1) != 0)
		fail_wrong_contents();
	close_file(cell);
}

void cell_end(struct cell *cell)
{
	remove_file(cell);
	free(cell->order);
}
