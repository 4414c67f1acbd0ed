// SPDX-License-Identifier: BSD-2-Clause
/* One filemark thread's files: creates, reads, appends and deletes; see file_set.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contents.h"
#include "common/session/fail.h"
#include "file_set.h"
#include "common/session/phases.h"

#define NAME_BYTES 64

static uint64_t key_of(const struct file_set *mine, uint32_t number)
{
	return mine->shape->contents + ((uint64_t)mine->thread << 32 | number);
}

static void name_of(const struct file_set *mine, uint32_t number, char name[NAME_BYTES])
{
	struct rng rng = { .state = ~key_of(mine, number) };

	snprintf(name, NAME_BYTES, "d%05" PRIu64 "/t%04lu-%08" PRIu32,
		 rng_below(&rng, mine->shape->dirs), mine->thread, number);
}

static void count_operation(struct file_set *mine, enum file_operation operation, int64_t start_ns,
			    uint64_t bytes)
{
	struct file_times *times = &mine->times[operation];
	int64_t ns = now_ns() - start_ns;

	times->count++;
	times->bytes += bytes;
	times->total_ns += ns;
	if (ns > times->longest_ns)
		times->longest_ns = ns;
}

static int open_file(const struct file_set *mine, const char *name, int flags, const char *what)
{
	int fd = openat(mine->dir_fd, name, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		fail_errno(what, name);
	return fd;
}

static void close_file(int fd, const char *name)
{
	if (close(fd) != 0)
		fail_errno("cannot close", name);
}

/* Writes BYTES bytes of the file's contents from offset FROM on, io_bytes per write(2). */
static void write_file(const struct file_set *mine, int fd, uint32_t number, uint32_t from,
		       uint32_t bytes, const char *name)
{
	while (bytes > 0) {
		uint32_t want = bytes < mine->shape->io_bytes ? bytes : mine->shape->io_bytes;
		ssize_t done = write(fd, contents_at(key_of(mine, number), from), want);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			fail_errno("cannot write", name);
		from += (uint32_t)done;
		bytes -= (uint32_t)done;
	}
}

void file_set_dirs(const struct file_shape *shape, int dir_fd)
{
	char name[NAME_BYTES];

	for (uint32_t i = 0; i < shape->dirs; i++) {
		snprintf(name, sizeof(name), "d%05" PRIu32, i);
		if (mkdirat(dir_fd, name, 0755) != 0)
			fail_errno("cannot make the directory", name);
	}
}

void file_set_create(struct file_set *mine)
{
	const struct file_shape *shape = mine->shape;
	struct set_file file = { .number = mine->n_made++ };
	int64_t start_ns = now_ns();
	char name[NAME_BYTES];
	int fd;

	if (mine->n_files == mine->room) {
		mine->room = mine->room ? mine->room * 2 : 1024;
		mine->files = must_alloc(realloc(mine->files, mine->room * sizeof(file)));
	}
	file.bytes = shape->low_bytes +
		     (uint32_t)rng_below(&mine->rng, shape->high_bytes - shape->low_bytes + 1);
	name_of(mine, file.number, name);
	fd = open_file(mine, name, O_WRONLY | O_CREAT | O_EXCL, "cannot create");
	write_file(mine, fd, file.number, 0, file.bytes, name);
	close_file(fd, name);
	mine->files[mine->n_files++] = file;
	count_operation(mine, FILE_CREATE, start_ns, file.bytes);
}

void file_set_read(struct file_set *mine)
{
	const struct set_file *file = &mine->files[rng_below(&mine->rng, mine->n_files)];
	char name[NAME_BYTES], buffer[FILE_SET_IO_MAX];
	int64_t start_ns = now_ns();
	uint64_t bytes = 0;
	ssize_t done;
	int fd;

	name_of(mine, file->number, name);
	fd = open_file(mine, name, O_RDONLY, "cannot open what was written");
	/*
	 * stop at the known size without a read at end of file, as PostMark does; file_set_verify() finds longer files
	 */
	while (bytes < file->bytes && (done = read(fd, buffer, mine->shape->io_bytes)) != 0) {
		if (done < 0 && errno != EINTR)
			fail_errno("cannot read", name);
		if (done > 0)
			bytes += (uint64_t)done;
	}
	close_file(fd, name);
	if (bytes != file->bytes)
		fail(EXIT_RUN_FAILED,
		     "%s: has %" PRIu64 " bytes of %" PRIu32
		     "; look in dmesg, and check the file system",
		     name, bytes, file->bytes);
	count_operation(mine, FILE_READ, start_ns, bytes);
}

void file_set_append(struct file_set *mine)
{
	struct set_file *file = &mine->files[rng_below(&mine->rng, mine->n_files)];
	int64_t start_ns = now_ns();
	char name[NAME_BYTES];
	uint32_t bytes;
	int fd;

	if (file->bytes >= mine->shape->high_bytes) {
		mine->full++;
		return;
	}
	bytes = 1 + (uint32_t)rng_below(&mine->rng, mine->shape->high_bytes - file->bytes);
	name_of(mine, file->number, name);
	fd = open_file(mine, name, O_WRONLY | O_APPEND, "cannot open what was written");
	write_file(mine, fd, file->number, file->bytes, bytes, name);
	close_file(fd, name);
	file->bytes += bytes;
	count_operation(mine, FILE_APPEND, start_ns, bytes);
}

void file_set_delete(struct file_set *mine)
{
	uint64_t index = rng_below(&mine->rng, mine->n_files);
	int64_t start_ns = now_ns();
	char name[NAME_BYTES];

	name_of(mine, mine->files[index].number, name);
	mine->files[index] = mine->files[--mine->n_files];
	if (unlinkat(mine->dir_fd, name, 0) != 0)
		fail_errno("cannot delete", name);
	count_operation(mine, FILE_DELETE, start_ns, 0);
}

uint64_t file_set_verify(struct file_set *mine, uint32_t index)
{
	const struct set_file *file = &mine->files[index];
	char name[NAME_BYTES];
	int fd;

	name_of(mine, file->number, name);
	fd = open_file(mine, name, O_RDONLY, "cannot open what was written");
	if (!contents_same(fd, file->bytes, key_of(mine, file->number), name))
		fail(EXIT_RUN_FAILED,
		     "%s: is not what was written; look in dmesg, and check the file system", name);
	close_file(fd, name);
	return file->bytes;
}

void file_set_free(struct file_set *mine)
{
	free(mine->files);
	mine->files = NULL;
}
