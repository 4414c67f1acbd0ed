// SPDX-License-Identifier: BSD-2-Clause
/* createdelete's files: one thread's creates, renames and deletes; see small_files.h. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "contents.h"
#include "common/session/fail.h"
#include "common/session/phases.h"
#include "small_files.h"

#define NAME_BYTES 64

void small_files_init(struct small_files *mine, unsigned long most)
{
	mine->n_files = mine->n_living = 0;
	/* + 1: calloc(0) may return NULL */
	mine->files = must_alloc(calloc(most + 1, sizeof(*mine->files)));
	mine->living = must_alloc(calloc(most + 1, sizeof(*mine->living)));
}

void small_files_free(struct small_files *mine)
{
	free(mine->files);
	free(mine->living);
}

static void name_of(const struct small_files *mine, uint32_t number, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "t%04lu-%08" PRIu32 "-%u", mine->thread, number,
		 (unsigned int)mine->files[number].renames);
}

/* A key for contents.h that differs in every file. */
static uint64_t contents_key(const struct small_files *mine, uint32_t number)
{
	return mine->contents + ((uint64_t)mine->thread << 32 | number);
}

static void count_operation(struct small_files *mine, enum small_file_operation operation,
			    int64_t ns)
{
	struct times *times = &mine->times[operation];

	times->count++;
	times->total_ns += ns;
	if (ns > times->longest_ns)
		times->longest_ns = ns;
}

uint64_t small_files_create(struct small_files *mine)
{
	uint32_t number = mine->n_files++;
	struct small_file *file = &mine->files[number];
	bool with_fsync = rng_below(&mine->rng, 100) < mine->fsync_pct;
	int64_t start_ns;
	int64_t sync_ns = 0;
	char name[NAME_BYTES];
	int fd;

	file->bytes = (uint16_t)(1 + rng_below(&mine->rng, SMALL_FILE_BYTES_MAX));
	name_of(mine, number, name);
	start_ns = now_ns();
	fd = openat(mine->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		fail_errno("cannot create", name);
	contents_write(fd, file->bytes, contents_key(mine, number), name);
	if (with_fsync) {
		int64_t sync_start_ns = now_ns();

		if (fsync(fd) != 0)
			fail_errno("cannot sync", name);
		sync_ns = now_ns() - sync_start_ns;
		count_operation(mine, FSYNC, sync_ns);
	}
	if (close(fd) != 0)
		fail_errno("cannot close", name);
	count_operation(mine, CREATE, now_ns() - start_ns - sync_ns);
	mine->living[mine->n_living++] = number;
	return file->bytes;
}

void small_files_rename(struct small_files *mine)
{
	uint32_t number = mine->living[rng_below(&mine->rng, mine->n_living)];
	char from[NAME_BYTES];
	char to[NAME_BYTES];
	int64_t start_ns;

	name_of(mine, number, from);
	mine->files[number].renames++; /* wraps from 65,535 to 0, which is a new name too */
	name_of(mine, number, to);
	start_ns = now_ns();
	if (renameat(mine->dir_fd, from, mine->dir_fd, to) != 0)
		fail_errno("cannot rename", from);
	count_operation(mine, RENAME, now_ns() - start_ns);
}

void small_files_delete(struct small_files *mine)
{
	uint64_t index = rng_below(&mine->rng, mine->n_living);
	char name[NAME_BYTES];
	int64_t start_ns;

	name_of(mine, mine->living[index], name);
	mine->living[index] = mine->living[--mine->n_living];
	start_ns = now_ns();
	if (unlinkat(mine->dir_fd, name, 0) != 0)
		fail_errno("cannot delete", name);
	count_operation(mine, DELETE, now_ns() - start_ns);
}

uint64_t small_files_verify(struct small_files *mine, uint32_t index)
{
	uint32_t number = mine->living[index];
	uint64_t bytes = mine->files[number].bytes;
	char name[NAME_BYTES];
	int fd;

	name_of(mine, number, name);
	fd = openat(mine->dir_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail_errno("cannot open what was written", name);
	if (!contents_same(fd, bytes, contents_key(mine, number), name))
		fail(EXIT_RUN_FAILED,
		     "%s: is not what was written; look in dmesg, and check the file system", name);
	if (close(fd) != 0)
		fail_errno("cannot close", name);
	return bytes;
}
