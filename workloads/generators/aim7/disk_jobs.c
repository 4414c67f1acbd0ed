// SPDX-License-Identifier: BSD-2-Clause
/*
 * aim7's file jobs, all in the task's own directory. The file "disk" is written block by block; a block's contents
 * follow from its number and its version, and versions[] has the last version of each.
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
static uint64_t versions[BLOCKS]; /* a task is a process: these are its own */
static uint64_t version;

static const char *contents(const struct task *task, unsigned int block, uint64_t of_version)
{
	struct rng rng = { .state = of_version * 4096 + block + ((uint64_t)task->number << 40) };

	return text + rng_below(&rng, TEXT_BYTES);
}

static int open_at(const struct task *task, const char *name, int flags)
{
	int fd = openat(task->dir_fd, name, flags | O_CLOEXEC, 0644);

	if (fd < 0)
		fail_errno(flags & O_CREAT ? "cannot create" : "cannot open", name);
	return fd;
}

static void close_it(int fd, const char *name)
{
	if (close(fd) != 0)
		fail_errno("cannot close", name);
}

static void remove_it(const struct task *task, const char *name, int flags)
{
	if (unlinkat(task->dir_fd, name, flags) != 0)
		fail_errno("cannot remove", name);
}

static void write_block(struct task *task, int fd, unsigned int block, uint64_t of_version,
			const char *name)
{
	ssize_t done = pwrite(fd, contents(task, block, of_version), BLOCK_BYTES,
			      (off_t)block * BLOCK_BYTES);

	if (done < 0)
		fail_errno("cannot write", name);
	if (done != BLOCK_BYTES)
		fail(EXIT_RUN_FAILED,
		     "%s: a block was written in part; give a larger disk (SIZE=) or a smaller "
		     "SCALE=",
		     name);
	task->bytes += BLOCK_BYTES;
}

static void read_block(struct task *task, int fd, unsigned int block, const char *name)
{
	char got[BLOCK_BYTES];
	ssize_t done = pread(fd, got, BLOCK_BYTES, (off_t)block * BLOCK_BYTES);

	if (done < 0)
		fail_errno("cannot read", name);
	if (done != BLOCK_BYTES || memcmp(got, contents(task, block, versions[block]), BLOCK_BYTES))
		fail(EXIT_RUN_FAILED,
		     "%s: is not what was written; look in dmesg, and check the file system", name);
	task->bytes += BLOCK_BYTES;
}

void make_disk_file(struct task *task)
{
	int fd;

	contents_fill(text, sizeof(text));
	memset(versions, 0, sizeof(versions));
	version = 0;
	fd = open_at(task, "disk", O_WRONLY | O_CREAT | O_EXCL);
	for (unsigned int block = 0; block < BLOCKS; block++)
		write_block(task, fd, block, 0, "disk");
	close_it(fd, "disk");
	task->bytes = 0;
}

void verify_disk_file(struct task *task)
{
	int fd = open_at(task, "disk", O_RDONLY);

	for (unsigned int block = 0; block < BLOCKS; block++)
		read_block(task, fd, block, "disk");
	close_it(fd, "disk");
}

enum { READS = 1, WRITES = 2, RANDOM = 4, SYNC = 8 };

/* All blocks of "disk" once, or as many by chance: read, written, or each by chance. */
static void blocks(struct task *task, unsigned int units, int what)
{
	int fd = open_at(task, "disk", O_RDWR | (what & SYNC ? O_DSYNC : 0));
	/* a synchronous write takes as long as dozens of others */
	unsigned int many = what & SYNC ? 2 : BLOCKS;

	for (; units > 0; units--) {
		for (unsigned int i = 0; i < many; i++) {
			unsigned int block =
				what & RANDOM ? (unsigned int)rng_below(&task->rng, BLOCKS) : i;
			int writes = what & WRITES;

			if (writes && what & READS)
				writes = (int)rng_below(&task->rng, 2);
			if (writes) {
				versions[block] = ++version;
				write_block(task, fd, block, version, "disk");
			} else {
				read_block(task, fd, block, "disk");
			}
		}
	}
	close_it(fd, "disk");
}

/* "disk" into a new file, which is compared and removed. */
static void copy(struct task *task, unsigned int units, int what)
{
	unsigned int many = what & SYNC ? 2 : BLOCKS;

	for (; units > 0; units--) {
		int from = open_at(task, "disk", O_RDONLY);
		int to = open_at(task, "copy",
				 O_RDWR | O_CREAT | O_EXCL | (what & SYNC ? O_DSYNC : 0));

		for (unsigned int block = 0; block < many; block++) {
			read_block(task, from, block, "disk");
			write_block(task, to, block, versions[block], "copy");
		}
		for (unsigned int block = 0; block < many; block++)
			read_block(task, to, block, "copy");
		close_it(from, "disk");
		close_it(to, "copy");
		remove_it(task, "copy", 0);
	}
}

static void create_close(struct task *task, unsigned int units, int what)
{
	for (; units > 0; units--) {
		int fd = open_at(task, "new", O_WRONLY | O_CREAT | O_EXCL);

		if (what) /* a small file, synced */
			write_block(task, fd, 0, version, "new");
		if (what && fsync(fd) != 0)
			fail_errno("cannot sync", "new");
		close_it(fd, "new");
		remove_it(task, "new", 0);
	}
}

static void append(struct task *task, unsigned int units, int what)
{
	struct stat status;
	int fd = open_at(task, "log", O_WRONLY | O_CREAT | O_EXCL | O_APPEND);

	(void)what;
	for (unsigned int i = 0; i < units; i++)
		write_block(task, fd, i, version, "log");
	if (fstat(fd, &status) != 0)
		fail_errno("cannot look at", "log");
	if (status.st_size != (off_t)units * BLOCK_BYTES)
		fail(EXIT_RUN_FAILED, "log: is not as long as what was appended");
	if (ftruncate(fd, 0) != 0)
		fail_errno("cannot shorten", "log");
	close_it(fd, "log");
	remove_it(task, "log", 0);
}

static void links(struct task *task, unsigned int units, int what)
{
	struct stat status;

	for (; units > 0; units--) {
		if (what ? symlinkat("disk", task->dir_fd, "other")
			 : linkat(task->dir_fd, "disk", task->dir_fd, "other", 0))
			fail_errno("cannot link", "disk");
		if (fstatat(task->dir_fd, "other", &status, 0) != 0)
			fail_errno("cannot look at", "other");
		if (status.st_size != DISK_BYTES)
			fail(EXIT_RUN_FAILED, "other: is not the file that it is linked to");
		remove_it(task, "other", 0);
	}
}

static void renames(struct task *task, unsigned int units, int what)
{
	(void)what;
	for (; units > 0; units--) {
		if (renameat(task->dir_fd, "disk", task->dir_fd, "renamed") != 0 ||
		    renameat(task->dir_fd, "renamed", task->dir_fd, "disk") != 0)
			fail_errno("cannot rename", "disk");
	}
}

static void stats(struct task *task, unsigned int units, int what)
{
	struct stat status;

	(void)what;
	for (; units > 0; units--) {
		if (fstatat(task->dir_fd, "disk", &status, 0) != 0)
			fail_errno("cannot look at", "disk");
		if (status.st_size != DISK_BYTES)
			fail(EXIT_RUN_FAILED, "disk: has changed its size");
	}
}

/* A directory with some names in it: made, listed, removed. */
static void directories(struct task *task, unsigned int units, int what)
{
	(void)what;
	for (; units > 0; units--) {
		char name[32];
		int found = 0;
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
			found += entry->d_name[0] != '.';
		closedir(listing);
		if (found != NAMES)
			fail(EXIT_RUN_FAILED, "directory: %d names are listed where %d must be",
			     found, NAMES);
		for (int i = 0; i < NAMES; i++) {
			snprintf(name, sizeof(name), "directory/%d", i);
			remove_it(task, name, AT_REMOVEDIR);
		}
		remove_it(task, "directory", AT_REMOVEDIR);
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
