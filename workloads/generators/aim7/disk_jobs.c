// SPDX-License-Identifier: BSD-2-Clause
/*
 * aim7's file jobs, all in the directory of the task. The file "disk" is written in blocks. A block's contents depend
 * on the task, the block number and the block's version; versions[] has the version last written.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files/contents.h"
#include "common/session/fail.h"
#include "jobs.h"

#define BLOCKS	   (DISK_BYTES / BLOCK_BYTES)
#define TEXT_BYTES (1024 * 1024)
#define NAMES	   10

static char text[TEXT_BYTES + BLOCK_BYTES];
static uint64_t versions[BLOCKS]; /* a task is a process, so each task has these variables */
static uint64_t last_version;

static const char *block_contents(const struct task *task, unsigned int block,
				  uint64_t block_version)
{
	struct rng rng = { .state = block_version * 4096 + block + ((uint64_t)task->number << 40) };

	return text + rng_below(&rng, TEXT_BYTES);
}

static int open_at(const struct task *task, const char *name, int flags)
{
	int fd = openat(task->dir_fd, name, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		fail_errno(flags & O_CREAT ? "cannot create" : "cannot open", name);
	return fd;
}

static void close_file(int fd, const char *name)
{
	if (close(fd) != 0)
		fail_errno("cannot close", name);
}

static void remove_name(const struct task *task, const char *name, int flags)
{
	if (unlinkat(task->dir_fd, name, flags) != 0)
		fail_errno("cannot remove", name);
}

static void write_block(struct task *task, int fd, unsigned int block, uint64_t block_version,
			const char *name)
{
	ssize_t done = pwrite(fd, block_contents(task, block, block_version), BLOCK_BYTES,
			      (off_t)block * BLOCK_BYTES);

	if (done < 0)
		fail_errno("cannot write", name);
	if (done != BLOCK_BYTES)
		fail(EXIT_RUN_FAILED,
		     "%s: a block was written only in part; give a larger disk (SIZE=) or a smaller "
		     "SCALE=",
		     name);
	task->bytes += BLOCK_BYTES;
}

static void read_block(struct task *task, int fd, unsigned int block, const char *name)
{
	char data[BLOCK_BYTES];
	ssize_t done = pread(fd, data, BLOCK_BYTES, (off_t)block * BLOCK_BYTES);

	if (done < 0)
		fail_errno("cannot read", name);
	if (done != BLOCK_BYTES ||
	    memcmp(data, block_contents(task, block, versions[block]), BLOCK_BYTES))
		fail(EXIT_RUN_FAILED,
		     "%s: is not what was written; look in dmesg, and check the file system", name);
	task->bytes += BLOCK_BYTES;
}

void make_disk_file(struct task *task)
{
	int fd;

	contents_fill(text, sizeof(text));
	memset(versions, 0, sizeof(versions));
	last_version = 0;
	fd = open_at(task, "disk", O_WRONLY | O_CREAT | O_EXCL);
	for (unsigned int block = 0; block < BLOCKS; block++)
		write_block(task, fd, block, 0, "disk");
	close_file(fd, "disk");
	task->bytes = 0;
}

void verify_disk_file(struct task *task)
{
	int fd = open_at(task, "disk", O_RDONLY);

	for (unsigned int block = 0; block < BLOCKS; block++)
		read_block(task, fd, block, "disk");
	close_file(fd, "disk");
}

enum { READS = 1, WRITES = 2, RANDOM = 4, SYNC = 8 };

/*
 * Reads or writes as many blocks of "disk" as the file has: in order, or at random with RANDOM. With READS and WRITES,
 * chance decides for each block.
 */
static void blocks(struct task *task, unsigned int units, int variant)
{
	int fd = open_at(task, "disk", O_RDWR | (variant & SYNC ? O_DSYNC : 0));
	/* a synchronous write takes as long as dozens of buffered writes */
	unsigned int count = variant & SYNC ? 2 : BLOCKS;

	for (; units > 0; units--) {
		for (unsigned int i = 0; i < count; i++) {
			unsigned int block =
				variant & RANDOM ? (unsigned int)rng_below(&task->rng, BLOCKS) : i;
			int writes = variant & WRITES;

			if (writes && variant & READS)
				writes = (int)rng_below(&task->rng, 2);
			if (writes) {
				versions[block] = ++last_version;
				write_block(task, fd, block, last_version, "disk");
			} else {
				read_block(task, fd, block, "disk");
			}
		}
	}
	close_file(fd, "disk");
}

/* Copies "disk" to a new file, compares the copy and removes it. */
static void copy(struct task *task, unsigned int units, int variant)
{
	unsigned int count = variant & SYNC ? 2 : BLOCKS;

	for (; units > 0; units--) {
		int from = open_at(task, "disk", O_RDONLY);
		int to = open_at(task, "copy",
				 O_RDWR | O_CREAT | O_EXCL | (variant & SYNC ? O_DSYNC : 0));

		for (unsigned int block = 0; block < count; block++) {
			read_block(task, from, block, "disk");
			write_block(task, to, block, versions[block], "copy");
		}
		for (unsigned int block = 0; block < count; block++)
			read_block(task, to, block, "copy");
		close_file(from, "disk");
		close_file(to, "copy");
		remove_name(task, "copy", 0);
	}
}

static void create_close(struct task *task, unsigned int units, int variant)
{
	for (; units > 0; units--) {
		int fd = open_at(task, "new", O_WRONLY | O_CREAT | O_EXCL);

		if (variant) /* a small file, synced */
			write_block(task, fd, 0, last_version, "new");
		if (variant && fsync(fd) != 0)
			fail_errno("cannot sync", "new");
		close_file(fd, "new");
		remove_name(task, "new", 0);
	}
}

static void append(struct task *task, unsigned int units, int variant)
{
	struct stat status;
	int fd = open_at(task, "log", O_WRONLY | O_CREAT | O_EXCL | O_APPEND);

	(void)variant;
	for (unsigned int i = 0; i < units; i++)
		write_block(task, fd, i, last_version, "log");
	if (fstat(fd, &status) != 0)
		fail_errno("cannot stat", "log");
	if (status.st_size != (off_t)units * BLOCK_BYTES)
		fail(EXIT_RUN_FAILED, "log: size differs from the bytes appended; look in dmesg");
	if (ftruncate(fd, 0) != 0)
		fail_errno("cannot truncate", "log");
	close_file(fd, "log");
	remove_name(task, "log", 0);
}

static void links(struct task *task, unsigned int units, int variant)
{
	struct stat status;

	for (; units > 0; units--) {
		if (variant ? symlinkat("disk", task->dir_fd, "other")
			    : linkat(task->dir_fd, "disk", task->dir_fd, "other", 0))
			fail_errno("cannot link", "disk");
		if (fstatat(task->dir_fd, "other", &status, 0) != 0)
			fail_errno("cannot stat", "other");
		if (status.st_size != DISK_BYTES)
			fail(EXIT_RUN_FAILED, "other: is not the file that it is linked to");
		remove_name(task, "other", 0);
	}
}

static void renames(struct task *task, unsigned int units, int variant)
{
	(void)variant;
	for (; units > 0; units--) {
		if (renameat(task->dir_fd, "disk", task->dir_fd, "renamed") != 0 ||
		    renameat(task->dir_fd, "renamed", task->dir_fd, "disk") != 0)
			fail_errno("cannot rename", "disk");
	}
}

static void stats(struct task *task, unsigned int units, int variant)
{
	struct stat status;

	(void)variant;
	for (; units > 0; units--) {
		if (fstatat(task->dir_fd, "disk", &status, 0) != 0)
			fail_errno("cannot stat", "disk");
		if (status.st_size != DISK_BYTES)
			fail(EXIT_RUN_FAILED, "disk: has changed its size");
	}
}

/* Makes a directory with NAMES subdirectories, lists it and removes it. */
static void directories(struct task *task, unsigned int units, int variant)
{
	(void)variant;
	for (; units > 0; units--) {
		char name[32];
		int listed = 0;
		struct dirent *entry;
		DIR *listing;
		int fd;

		if (mkdirat(task->dir_fd, "directory", 0755) != 0)
			fail_errno("cannot make the directory", "directory");
		for (int i = 0; i < NAMES; i++) {
			snprintf(name, sizeof(name), "directory/%d", i);
			if (mkdirat(task->dir_fd, name, 0755) != 0)
				fail_errno("cannot make the directory", name);
		}
		fd = open_at(task, "directory", O_RDONLY | O_DIRECTORY);
		listing = fdopendir(fd);
		if (listing == NULL)
			fail_errno("cannot list", "directory");
		while ((entry = readdir(listing)) != NULL)
			listed += entry->d_name[0] != '.';
		closedir(listing);
		if (listed != NAMES)
			fail(EXIT_RUN_FAILED, "directory: %d names are listed where %d must be",
			     listed, NAMES);
		for (int i = 0; i < NAMES; i++) {
			snprintf(name, sizeof(name), "directory/%d", i);
			remove_name(task, name, AT_REMOVEDIR);
		}
		remove_name(task, "directory", AT_REMOVEDIR);
	}
}

const struct job disk_jobs[] = {
	{ "disk_read", blocks, READS },
	{ "disk_read_random", blocks, READS | RANDOM },
	{ "disk_write", blocks, WRITES },
	{ "disk_write_random", blocks, WRITES | RANDOM },
	{ "disk_mixed", blocks, READS | WRITES },
	{ "disk_mixed_random", blocks, READS | WRITES | RANDOM },
	{ "disk_copy", copy, 0 },
	{ "sync_write", blocks, WRITES | SYNC },
	{ "sync_write_random", blocks, WRITES | RANDOM | SYNC },
	{ "sync_copy", copy, SYNC },
	{ "create_close", create_close, 0 },
	{ "create_sync", create_close, 1 },
	{ "append", append, 0 },
	{ "link", links, 0 },
	{ "symlink", links, 1 },
	{ "rename", renames, 0 },
	{ "stat", stats, 0 },
	{ "directories", directories, 0 },
	{ NULL, NULL, 0 },
};
