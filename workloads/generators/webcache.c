// SPDX-License-Identifier: BSD-2-Clause
/*
 * webcache: the small files of a web cache, after a file system comparison of 2004: tar(1) extracts an archive of them,
 * rm(1) removes them; then postmark(1) runs.
 *
 *   webcache -D DIR [-m MEGABYTES] [-l DIRECTORIES] [--stream] [-f FILES -t TRANSACTIONS -d DIRECTORIES] [-s SEED]
 *
 *   population  makes the archive, or verifies the checksum of an archive from an earlier run (common/files/archive.h);
 *               common/files/population.h has the files' sizes and directories
 *   extract     tar extracts the archive
 *   verify      a check, not a result: each file has its contents, and no other file exists
 *   delete      rm -r
 *   postmark create, postmark transactions, postmark delete
 *
 * The file system is remounted before verify, delete and postmark, so that nothing is cached
 * (common/session/remount.h).
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files/archive.h"
#include "common/files/contents.h"
#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/stats/numbers.h"
#include "common/session/options.h"
#include "common/session/phases.h"
#include "common/files/population.h"
#include "common/postmark/postmark.h"
#include "common/session/program.h"
#include "common/session/steps.h"
#include "common/files/walk.h"

#define MEGABYTES_MAX	 1000000
#define POSTMARK_MAX	 100000000
#define POSTMARK_MINIMUM 512
#define POSTMARK_MAXIMUM 16384
#define POSTMARK_IO	 4096

struct settings {
	const char *dir;
	uint64_t megabytes;
	uint64_t second_level;
	uint64_t seed;
	bool stream;
	struct postmark postmark;
};

/* Forks a process that writes the archive into a pipe; no archive is kept. Returns the pipe's read end. */
static int stream_archive(const struct population *all, pid_t *writer)
{
	int ends[2];

	fflush(stdout);
	if (pipe2(ends, O_CLOEXEC) != 0)
		fail_errno("cannot be made", "a pipe");
	(void)fcntl(ends[1], F_SETPIPE_SZ,
		    1024 * 1024); /* fails above pipe-max-size: slower, not wrong */
	*writer = fork();
	if (*writer < 0)
		fail_errno("cannot be started", "the archive's writer");
	if (*writer == 0) {
		close(ends[0]);
		archive_write(all, ends[1], "the archive");
		_exit(0);
	}
	close(ends[1]);
	return ends[0];
}

static void wait_for_writer(pid_t writer)
{
	int status;

	if (waitpid(writer, &status, 0) != writer || status != 0)
		fail(EXIT_RUN_FAILED, "the archive's writer: failed");
}

static int open_population(const struct population *all)
{
	bool made = false;
	int fd;

	step_begin_unmeasured("population");
	fd = archive_open(all, &made);
	step_end(all->count, all->bytes);
	printf("      the archive of %" PRIu64 " bytes %s\n", archive_bytes(all),
	       made ? "is new" : "is from an earlier run: its checksum is right");
	return fd;
}

static double extract(const struct settings *set, const struct population *all)
{
	const char *const argv[] = { "tar", "--extract", "--file=-", NULL };
	struct program_output output = { 0 };
	pid_t writer = 0;
	int in = set->stream ? -1 : open_population(all);

	step_begin("extract");
	if (set->stream)
		in = stream_archive(all, &writer);
	program_run(argv, in, &output);
	close(in);
	if (set->stream)
		wait_for_writer(writer);
	return step_end(all->count, all->bytes);
}

struct entry_counts {
	uint64_t files;
	uint64_t directories;
};

static void count_file(void *context, int dir_fd, const char *name, const char *path)
{
	(void)dir_fd;
	(void)name;
	(void)path;
	((struct entry_counts *)context)->files++;
}

static void count_directory(void *context, int dir_fd, const char *name, const char *path)
{
	(void)dir_fd;
	(void)name;
	(void)path;
	((struct entry_counts *)context)->directories++;
}

/* Compares every file of the population. If the number of files is right too, no other file exists. */
static void verify(const struct population *all)
{
	struct entry_counts listed = { 0 };
	struct walk walk = { .file = count_file, .enter_dir = count_directory, .context = &listed };
	uint64_t directories = POPULATION_LEVEL_1 * (1 + (uint64_t)all->second_level);

	step_begin_unmeasured("verify");
	for (uint32_t i = 0; i < all->count; i++) {
		const struct cached_file *file = &all->files[i];
		char name[POPULATION_NAME_BYTES];
		int fd;

		population_name(all, file, name);
		fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			fail_errno("cannot open what was extracted", name);
		if (!contents_same(fd, file->bytes, population_contents(all, file), name))
			fail(EXIT_RUN_FAILED,
			     "%s: is not what was extracted; look in dmesg, and check the file system",
			     name);
		if (close(fd) != 0)
			fail_errno("cannot close", name);
		step_progress(i + 1);
	}
	walk_tree(&walk, AT_FDCWD, POPULATION_TOP);
	if (listed.files != all->count || listed.directories != directories)
		fail(EXIT_RUN_FAILED,
		     POPULATION_TOP ": %" PRIu64 " files in %" PRIu64 " directories where %" PRIu32
				    " in %" PRIu64
				    " must be; look in dmesg, and check the file system",
		     listed.files, listed.directories, all->count, directories);
	step_end(all->count, all->bytes);
}

static double delete (const struct population *all)
{
	const char *const argv[] = { "rm", "-r", POPULATION_TOP, NULL };
	struct program_output output = { 0 };
	double seconds;

	step_begin("delete");
	program_run(argv, -1, &output);
	seconds = step_end(all->count, 0);
	if (access(POPULATION_TOP, F_OK) == 0)
		fail(EXIT_RUN_FAILED, POPULATION_TOP ": still exists after it was deleted");
	return seconds;
}

static int by_size(const void *left, const void *right)
{
	const struct cached_file *a = left, *b = right;

	return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static void print_population(struct population *all)
{
	if (all->count == 0)
		fail(EXIT_WRONG_WORDS, "-m: no file fits into the archive; give more megabytes");
	qsort(all->files, all->count, sizeof(*all->files), by_size);
	printf("%" PRIu32 " files of %" PRIu64 " bytes; half of them have %" PRIu32
	       " at most, the largest %" PRIu32 "\n",
	       all->count, all->bytes, all->files[all->count / 2].bytes,
	       all->files[all->count - 1].bytes);
	results_row("",
		    "\"files\":%" PRIu32 ",\"file_bytes\":%" PRIu64
		    ",\"median_file_bytes\":%" PRIu32,
		    all->count, all->bytes, all->files[all->count / 2].bytes);
}

static void run_archive(const struct settings *set)
{
	struct population all =
		population_make(set->megabytes * 1000000, set->second_level, set->seed);
	double extract_s, delete_s;

	if (access(POPULATION_TOP, F_OK) == 0)
		fail(EXIT_RUN_FAILED, POPULATION_TOP ": exists already; remove it");
	extract_s = extract(set, &all);
	steps_make_cold();
	verify(&all);
	steps_make_cold();
	delete_s = delete (&all);
	print_population(&all);
	results_row("", "\"extract_s\":%.3f,\"delete_s\":%.3f", extract_s, delete_s);
	free(all.files);
}

static void usage(void)
{
	printf("usage: webcache [-D DIR] [-m MEGABYTES] [-l DIRECTORIES] [--stream] [-s SEED]\n"
	       "                [-f FILES] [-t TRANSACTIONS] [-d DIRECTORIES]\n"
	       "       webcache --clean\n"
	       "  -D DIR           working directory ($SEEKMETER_DIR)\n"
	       "  -m MEGABYTES     size of the archive that is extracted (100); 0: no archive\n"
	       "  -l DIRECTORIES   directories in each of the 16 directories of the first level (256)\n"
	       "  --stream         make the archive into a pipe to tar; keep no archive\n"
	       "  -s SEED          decides sizes and contents ($SEEKMETER_SEED, else 1)\n"
	       "  -f FILES         files of PostMark (0: no PostMark)\n"
	       "  -t TRANSACTIONS  transactions of PostMark (10000)\n"
	       "  -d DIRECTORIES   directories of PostMark (100)\n"
	       "  --clean          remove the kept archives and exit\n");
}

static void clean(void)
{
	printf("webcache: %d archives removed\n", archive_remove_all());
}

static struct settings settings_of(int argc, char **argv)
{
	struct settings set = { .megabytes = 100,
				.second_level = POPULATION_LEVEL_2_MAX,
				.postmark = { .transactions = 10000,
					      .subdirectories = 100,
					      .bytes_min = POSTMARK_MINIMUM,
					      .bytes_max = POSTMARK_MAXIMUM,
					      .io_bytes = POSTMARK_IO,
					      .read_tenths = 5,
					      .create_tenths = 5 } };
	const struct choice choices[] = {
		{ .letter = 'm', .number = &set.megabytes, .max = MEGABYTES_MAX },
		{ .letter = 'l',
		  .number = &set.second_level,
		  .min = 1,
		  .max = POPULATION_LEVEL_2_MAX },
		{ .letter = 'f', .number = &set.postmark.files, .max = POSTMARK_MAX },
		{ .letter = 't',
		  .number = &set.postmark.transactions,
		  .min = 1,
		  .max = POSTMARK_MAX },
		{ .letter = 'd',
		  .number = &set.postmark.subdirectories,
		  .min = 1,
		  .max = POSTMARK_MAX },
		{ .name = "stream", .flag = &set.stream },
		{ .name = "clean", .act = clean },
	};
	const struct generator generator = { "webcache", usage, &set.dir, &set.seed };

	parse_options(&generator, CHOICES(choices), argc, argv);
	set.postmark.seed = set.seed;
	return set;
}

int main(int argc, char **argv)
{
	struct settings set = settings_of(argc, argv);

	if (chdir(set.dir) != 0)
		fail_errno("cannot enter the directory", set.dir);
	phases_open();
	results_open();
	contents_init();
	printf("webcache in %s: an archive of %" PRIu64 " MB, PostMark with %" PRIu64
	       " files, seed %" PRIu64 "\n",
	       set.dir, set.megabytes, set.postmark.files, set.seed);
	if (set.megabytes > 0)
		run_archive(&set);
	if (set.megabytes > 0 && set.postmark.files > 0)
		steps_make_cold();
	if (set.postmark.files > 0)
		postmark_run(&set.postmark);
	steps_finish();
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
