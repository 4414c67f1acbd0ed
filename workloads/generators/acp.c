// SPDX-License-Identifier: BSD-2-Clause
/*
 * acp: reads all files below directories fast. It takes the files of each directory in inode order, a batch at a
 * time: it opens a batch, starts readahead(2) of each file, then reads. This pays for many small files.
 * The method is that of Chris Mason's acp (2007), of which no code is used; unlike that acp, this one copies nothing.
 *
 *   acp [-b BATCH] [DIR]...
 *
 * Prints one line at the end: files, bytes, directories, seconds. It skips all but regular files and directories.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files/contents.h"
#include "common/session/fail.h"
#include "common/files/directory.h"
#include "common/stats/numbers.h"
#include "common/session/phases.h"

#define BATCH_DEFAULT	 128
#define BATCH_MAX	 900 /* below the usual limit of open files */
#define PROGRESS_SECONDS 5

static unsigned long batch_files = BATCH_DEFAULT;
static uint64_t files, bytes, directories;
static int64_t progress_ns;

struct opened {
	int fd;
	const char *name;
};

static void show_progress(void)
{
	int64_t now = now_ns();

	if (now - progress_ns < PROGRESS_SECONDS * INT64_C(1000000000))
		return;
	progress_ns = now;
	fprintf(stderr, "      acp: %" PRIu64 " files so far\n", files);
}

static int open_and_read_ahead(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat info;

	if (fd < 0)
		fail_errno("cannot open", name);
	if (fstat(fd, &info) != 0)
		fail_errno("cannot stat", name);
	/* Some file systems have no readahead; the files are read without. */
	if (info.st_size > 0 && readahead(fd, 0, (size_t)info.st_size) != 0 && errno != EINVAL &&
	    errno != EOPNOTSUPP)
		fail_errno("cannot be read ahead", name);
	return fd;
}

static void read_batch(struct opened *batch, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bytes += contents_read(batch[i].fd, batch[i].name);
		if (close(batch[i].fd) != 0)
			fail_errno("cannot close", batch[i].name);
		files++;
	}
	show_progress();
}

static void read_files(int dir_fd, const struct directory *list)
{
	struct opened batch[BATCH_MAX];
	size_t count = 0;

	for (size_t i = 0; i < list->count; i++) {
		if (list->entries[i].type != DT_REG)
			continue;
		batch[count].name = directory_name(list, i);
		batch[count].fd = open_and_read_ahead(dir_fd, batch[count].name);
		if (++count == batch_files) {
			read_batch(batch, count);
			count = 0;
		}
	}
	read_batch(batch, count);
}

static void read_directory(int parent_fd, const char *name)
{
	int nofollow = parent_fd == AT_FDCWD
			       ? 0
			       : O_NOFOLLOW; /* a directory on the command line may be a symlink */
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | nofollow);
	struct directory list;

	if (fd < 0)
		fail_errno("cannot open the directory", name);
	directories++;
	directory_read(&list, fd, name);
	directory_sort_by_inode(&list);
	read_files(fd, &list);
	for (size_t i = 0; i < list.count; i++)
		if (list.entries[i].type == DT_DIR)
			read_directory(fd, directory_name(&list, i));
	directory_free(&list);
	if (close(fd) != 0)
		fail_errno("cannot close the directory", name);
}

static void usage(void)
{
	printf("usage: acp [-b BATCH] [DIR]...\n"
	       "  -b BATCH  files opened and read ahead before the first file is read (%d)\n"
	       "  DIR       directory to read (the working directory)\n",
	       BATCH_DEFAULT);
}

int main(int argc, char **argv)
{
	int64_t start_ns = now_ns();
	int option;

	opterr = 0;
	while ((option = getopt(argc, argv, ":b:h")) != -1) {
		switch (option) {
		case 'b':
			batch_files = parse_number("-b", optarg, 1, BATCH_MAX);
			break;
		case 'h':
			usage();
			return 0;
		case ':':
			fail(EXIT_WRONG_WORDS, "acp: -%c needs a value; see -h", optopt);
		default:
			fail(EXIT_WRONG_WORDS, "acp: unknown option %s; see -h", argv[optind - 1]);
		}
	}
	progress_ns = start_ns;
	if (optind == argc)
		read_directory(AT_FDCWD, ".");
	for (; optind < argc; optind++)
		read_directory(AT_FDCWD, argv[optind]);
	printf("acp: %" PRIu64 " files, %" PRIu64 " bytes, %" PRIu64 " directories in %.3f s\n",
	       files, bytes, directories, (double)(now_ns() - start_ns) / 1e9);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
