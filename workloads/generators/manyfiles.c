// SPDX-License-Identifier: BSD-2-Clause
/*
 * manyfiles: very many small files in one directory, after the Btrfs benchmark page of 2007.
 *
 *   manyfiles -D DIR [-n FILES] [-b BYTES] [-s SEED] [--keep]
 *
 *   create    FILES files of BYTES bytes, one after the other, named in the order of their creation
 *   find      find(1) lists them
 *   tar read  tar(1) reads them in readdir order, into a pipe (with its output at /dev/null, tar reads nothing)
 *   acp read  acp reads them in the order of their inodes (acp.c)
 *   verify    a check, not a result: each file has its contents, and no other file exists. This step also gets the
 *             inode and the disk offset of each file, and prints how well the orders match (Spearman's rank
 *             correlation). That match decides how long tar and delete take
 *   delete    all, in readdir order; not with --keep
 *
 * The file system is remounted before each phase but create and verify, so that nothing is cached
 * (common/session/remount.h).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files/contents.h"
#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/files/directory.h"
#include "common/stats/numbers.h"
#include "common/session/options.h"
#include "common/session/phases.h"
#include "common/files/file_offset.h"
#include "common/session/program.h"
#include "common/stats/rank.h"
#include "common/session/steps.h"

#define TOP	   "manyfiles" /* the directory that is made */
#define FILES_MAX  100000000
#define BYTES_MAX  (64 * 1024 * 1024)
#define NAME_BYTES 24
#define TAR_BLOCK  512
#define TAR_RECORD (20 * TAR_BLOCK)

struct settings {
	const char *dir;
	uint64_t files;
	uint64_t bytes;
	uint64_t seed;
	bool keep;
};

static int open_top(void)
{
	int fd = open(TOP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		fail_errno("cannot open the directory", TOP);
	return fd;
}

static void create_files(const struct settings *set)
{
	int top;

	step_begin("create");
	if (mkdir(TOP, 0755) != 0)
		fail_errno("cannot make the directory", TOP);
	top = open_top();
	for (unsigned long i = 0; i < set->files; i++) {
		char name[NAME_BYTES];
		int fd;

		snprintf(name, sizeof(name), "f%08lu", i);
		fd = openat(top, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0)
			fail_errno("cannot create", name);
		contents_write(fd, set->bytes, set->seed + i, name);
		if (close(fd) != 0)
			fail_errno("cannot close", name);
		step_progress(i + 1);
	}
	if (close(top) != 0)
		fail_errno("cannot close the directory", TOP);
	step_end(set->files, set->files * set->bytes);
}

static void must_be(const char *program, const char *what, uint64_t count, uint64_t expected)
{
	if (count != expected)
		fail(EXIT_RUN_FAILED,
		     "%s: %" PRIu64 " %s where %" PRIu64
		     " must be; look in dmesg, and check the file system",
		     program, count, what, expected);
}

static void run_find(const struct settings *set)
{
	const char *const argv[] = { "find", TOP, NULL };
	struct program_output output = { 0 };

	step_begin("find");
	program_run(argv, -1, &output);
	step_end(set->files, 0);
	must_be("find", "names", output.lines, set->files + 1);
}

/* Size of a tar archive of the directory: a header per file and directory, contents in whole blocks, the end blocks. */
static uint64_t archive_bytes(const struct settings *set)
{
	uint64_t blocks = 1 + set->files * (1 + (set->bytes + TAR_BLOCK - 1) / TAR_BLOCK) + 2;

	return (blocks * TAR_BLOCK + TAR_RECORD - 1) / TAR_RECORD * TAR_RECORD;
}

static void run_tar(const struct settings *set)
{
	const char *const argv[] = { "tar",	 "--create", "--sort=none", "--format=gnu",
				     "--file=-", TOP,	     NULL };
	struct program_output output = { 0 };

	step_begin("tar read");
	program_run(argv, -1, &output);
	step_end(set->files, set->files * set->bytes);
	must_be("tar", "bytes in the archive", output.bytes, archive_bytes(set));
}

static void run_acp(const struct settings *set)
{
	const char *const argv[] = { sibling_program("acp"), TOP, NULL };
	struct program_output output = { 0 };
	uint64_t files = 0, bytes = 0;

	step_begin("acp read");
	program_run(argv, -1, &output);
	step_end(set->files, set->files * set->bytes);
	if (sscanf(output.first, "acp: %" SCNu64 " files, %" SCNu64 " bytes", &files, &bytes) != 2)
		fail(EXIT_RUN_FAILED, "acp: the output is not understood: %s", output.first);
	must_be("acp", "files", files, set->files);
	must_be("acp", "bytes", bytes, set->files * set->bytes);
}

/* Arrays with one number per file, in readdir order; on_disk_*: only of the files with a disk offset. */
struct orders {
	uint64_t *readdir; /* 0, 1, 2, ... */
	uint64_t *inode;
	uint64_t *on_disk_readdir;
	uint64_t *on_disk_inode;
	uint64_t *disk_offset;
	size_t on_disk_count;
};

static void verify_file(const struct settings *set, int top, const char *name, uint64_t *inode,
			bool *on_disk, uint64_t *disk_offset)
{
	int fd = openat(top, name, O_RDONLY | O_CLOEXEC);
	unsigned long number = 0;
	char expected[NAME_BYTES];
	struct stat info;

	if (fd < 0)
		fail_errno("cannot open what was written", name);
	if (sscanf(name, "f%lu", &number) == 1)
		snprintf(expected, sizeof(expected), "f%08lu", number);
	else
		expected[0] = '\0';
	if (strcmp(name, expected) != 0 || number >= set->files)
		fail(EXIT_RUN_FAILED, TOP "/%s: exists, but manyfiles did not make it", name);
	if (fstat(fd, &info) != 0)
		fail_errno("cannot stat", name);
	*inode = info.st_ino;
	*on_disk = file_offset_on_disk(fd, disk_offset);
	if (!contents_same(fd, set->bytes, set->seed + number, name))
		fail(EXIT_RUN_FAILED,
		     "%s: is not what was written; look in dmesg, and check the file system", name);
	if (close(fd) != 0)
		fail_errno("cannot close", name);
}

static struct orders verify(const struct settings *set)
{
	struct directory list;
	struct orders orders;
	int top = open_top();

	step_begin_unmeasured("verify");
	if (syncfs(top) !=
	    0) /* delayed allocation gives a file its disk offset only at writeback */
		fail_errno("cannot be synced", TOP);
	directory_read(&list, top, TOP);
	/* names differ: if the count is right and each name is expected, every file exists */
	must_be(TOP, "files", list.count, set->files);
	orders.readdir = must_alloc(calloc(5, (list.count + 1) * sizeof(uint64_t)));
	orders.inode = orders.readdir + list.count;
	orders.on_disk_readdir = orders.inode + list.count;
	orders.on_disk_inode = orders.on_disk_readdir + list.count;
	orders.disk_offset = orders.on_disk_inode + list.count;
	orders.on_disk_count = 0;
	for (size_t i = 0; i < list.count; i++) {
		bool on_disk = false;

		orders.readdir[i] = i;
		verify_file(set, top, directory_name(&list, i), &orders.inode[i], &on_disk,
			    &orders.disk_offset[orders.on_disk_count]);
		if (on_disk) {
			orders.on_disk_readdir[orders.on_disk_count] = i;
			orders.on_disk_inode[orders.on_disk_count++] = orders.inode[i];
		}
		step_progress(i + 1);
	}
	directory_free(&list);
	if (close(top) != 0)
		fail_errno("cannot close the directory", TOP);
	step_end(set->files, set->files * set->bytes);
	return orders;
}

static void print_correlation(const char *what, const char *figure, double rho, const char *why_not)
{
	if (isnan(rho)) {
		printf("%-38s not measured: %s\n", what, why_not);
		results_row("", "\"%s\":\"not measured: %s\"", figure, why_not);
	} else {
		printf("%-38s %.6f\n", what, rho);
		results_row("", "\"%s\":%.6f", figure, rho);
	}
}

static void print_orders(const struct settings *set, const struct orders *orders)
{
	const char *why_not = set->files < 2	? "too few files"
			      : set->bytes == 0 ? "empty files have no disk offset"
			      : orders->on_disk_count == 0
				      ? "the file system gives no disk offsets"
				      : "too few disk offsets, or all the same";

	printf("Spearman's rank correlation of orders, 1: the same, 0: none, -1: the reverse\n");
	print_correlation("  readdir with inode number", "spearman_readdir_inode",
			  rank_correlation(orders->readdir, orders->inode, set->files), why_not);
	print_correlation("  readdir with disk offset", "spearman_readdir_place",
			  rank_correlation(orders->on_disk_readdir, orders->disk_offset,
					   orders->on_disk_count),
			  why_not);
	print_correlation("  inode number with disk offset", "spearman_inode_place",
			  rank_correlation(orders->on_disk_inode, orders->disk_offset,
					   orders->on_disk_count),
			  why_not);
	printf("  files with a disk offset: %zu of %lu\n", orders->on_disk_count, set->files);
	results_row("", "\"files_with_a_place\":%zu", orders->on_disk_count);
}

static void delete_files(const struct settings *set)
{
	struct directory list;
	int top;

	step_begin("delete");
	top = open_top();
	directory_read(&list, top, TOP);
	for (size_t i = 0; i < list.count; i++) {
		if (unlinkat(top, directory_name(&list, i), 0) != 0)
			fail_errno("cannot delete", directory_name(&list, i));
		step_progress(i + 1);
	}
	directory_free(&list);
	if (close(top) != 0 || rmdir(TOP) != 0)
		fail_errno("cannot delete the directory", TOP);
	step_end(set->files, 0);
	if (access(TOP, F_OK) == 0 || errno != ENOENT)
		fail(EXIT_RUN_FAILED, TOP ": still exists after it was deleted");
}

static void usage(void)
{
	printf("usage: manyfiles [-D DIR] [-n FILES] [-b BYTES] [-s SEED] [--keep]\n"
	       "  -D DIR    directory in which " TOP " is made ($SEEKMETER_DIR)\n"
	       "  -n FILES  number of files (10000)\n"
	       "  -b BYTES  size of each file (512)\n"
	       "  -s SEED   decides the contents ($SEEKMETER_SEED, else 1)\n"
	       "  --keep    do not delete the files at the end\n");
}

static struct settings settings_of(int argc, char **argv)
{
	struct settings set = { .files = 10000, .bytes = 512 };
	const struct choice choices[] = {
		{ .letter = 'n', .number = &set.files, .max = FILES_MAX },
		{ .letter = 'b', .number = &set.bytes, .max = BYTES_MAX },
		{ .name = "keep", .flag = &set.keep },
	};
	const struct generator generator = { "manyfiles", usage, &set.dir, &set.seed };

	parse_options(&generator, CHOICES(choices), argc, argv);
	return set;
}

int main(int argc, char **argv)
{
	struct settings set = settings_of(argc, argv);
	struct orders orders;

	if (chdir(set.dir) != 0)
		fail_errno("cannot enter the directory", set.dir);
	phases_open();
	results_open();
	contents_init();
	printf("manyfiles in %s: %lu files of %" PRIu64 " bytes, seed %" PRIu64 "\n", set.dir,
	       set.files, set.bytes, set.seed);
	create_files(&set);
	steps_make_cold();
	run_find(&set);
	steps_make_cold();
	run_tar(&set);
	steps_make_cold();
	run_acp(&set);
	orders = verify(&set);
	if (!set.keep) {
		steps_make_cold();
		delete_files(&set);
	}
	print_orders(&set, &orders);
	steps_finish();
	free(orders.readdir);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
