// SPDX-License-Identifier: BSD-2-Clause
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fail.h"
#include "phases.h"
#include "postmark.h"
#include "program.h"

#define IO_BYTES   4096 /* of one read or write */
#define FULL_SHARE 200	/* a disk with less than this part of it left is full */

/* It says each of these, at once, when that part begins. */
enum part { CREATE, TRANSACTIONS, DELETE, REMOVE, OVER, PARTS };
static const char *const words[PARTS] = { "Creating files...", "Performing transactions",
					  "Deleting files...", "Deleting subdirectories...",
					  "Time:" };
static const char *const names[] = { "postmark create", "postmark transactions",
				     "postmark delete" };

static int64_t begun_ns[PARTS];
static int begun;
static const char *directory;

/* PostMark does not look at whether a write succeeded: a full disk would make it fast. */
static void must_have_room(void)
{
	struct statvfs status;
	uint64_t spare;

	if (statvfs(directory, &status) != 0)
		fail_errno("cannot be asked for its room", directory);
	spare = status.f_blocks / FULL_SHARE;
	if (status.f_bavail <= spare || (status.f_files > 0 && status.f_favail == 0))
		fail(EXIT_RUN_FAILED,
		     "postmark: the disk is full; give a larger disk (SIZE=) or a smaller SCALE=");
}

static void hear(struct said *said)
{
	int64_t now = now_ns();

	while (begun < PARTS && strstr(said->first, words[begun]) != NULL) {
		begun_ns[begun] = now;
		if (begun < REMOVE) {
			printf("      %s\n", words[begun]);
			fflush(stdout);
		}
		begun++;
	}
	/* it says something after each tenth of the transactions, too */
	if (begun > CREATE && begun <= DELETE + 1)
		must_have_room();
}

/* Its commands, as a file without a name. */
static int write_commands(const struct postmark *wanted)
{
	int fd = memfd_create("commands of postmark", MFD_CLOEXEC);

	if (fd < 0 ||
	    dprintf(fd,
		    "set location %s\nset number %lu\nset transactions %lu\nset subdirectories %lu\n"
		    "set size %lu %lu\nset read %d\nset write %d\nset seed %" PRIu64
		    "\nset buffering false\nset report verbose\nrun\nquit\n",
		    wanted->dir, wanted->files, wanted->transactions, wanted->subdirectories,
		    wanted->bytes_min, wanted->bytes_max, IO_BYTES, IO_BYTES,
		    wanted->seed % INT32_MAX /* it takes an int */) < 0)
		fail_errno("cannot be written", "the commands of postmark");
	return fd;
}

/* The number before WORD, as in "\t11998 created (2999 per second)". */
static uint64_t number_before(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	if (at == NULL)
		fail(EXIT_RUN_FAILED, "postmark: does not say how many '%s'; it said: %s", word,
		     text);
	while (at > text && (at[-1] == ' ' || (at[-1] >= '0' && at[-1] <= '9')))
		at--;
	return strtoull(at, NULL, 10);
}

static void check(const struct postmark *wanted, const char *text)
{
	uint64_t created = number_before(text, " created");
	uint64_t deleted = number_before(text, " deleted");
	uint64_t used = number_before(text, " read (") + number_before(text, " appended");
	const char *complaint = strstr(text, "Error");

	if (complaint != NULL)
		fail(EXIT_RUN_FAILED,
		     "postmark: %.*s; give a larger disk (SIZE=) or a smaller SCALE=",
		     (int)strcspn(complaint, "\n"), complaint);
	/* it appends nothing to a file that has its largest size */
	if (created < wanted->files || created != deleted || used > wanted->transactions ||
	    used < wanted->transactions * 9 / 10)
		fail(EXIT_RUN_FAILED,
		     "postmark: created %" PRIu64 ", deleted %" PRIu64 " files, %" PRIu64
		     " reads and appends, for %lu files and %lu transactions; look in dmesg",
		     created, deleted, used, wanted->files, wanted->transactions);
}

double postmark_run(const struct postmark *wanted)
{
	/* opened by name, as else it would prompt for each command */
	const char *const argv[] = { "postmark", "/dev/stdin", NULL };
	struct said said = { .hear = hear };
	uint64_t done[] = { wanted->files, wanted->transactions, 0 };
	int in = write_commands(wanted);
	const char *alone;

	if (mkdir(wanted->dir, 0755) != 0)
		fail_errno("cannot make the directory", wanted->dir);
	begun = 0;
	directory = wanted->dir;
	program_run(argv, in, &said);
	close(in);
	check(wanted, said.first);
	if (begun != PARTS)
		fail(EXIT_RUN_FAILED, "postmark: did not come to '%s'", words[begun]);
	alone = strstr(said.first, "Deletion alone");
	done[DELETE] = alone != NULL ? number_before(alone, " files") : 0;
	fputs(strstr(said.first, words[OVER]), stdout);
	for (int i = 0; i < REMOVE; i++)
		phase_done(names[i], begun_ns[i], begun_ns[i + 1], done[i], 0);
	if (rmdir(wanted->dir) != 0) /* only if it is empty, as it must be */
		fail_errno("cannot delete the directory", wanted->dir);
	return (double)wanted->transactions * 1e9 /
	       (double)(begun_ns[TRANSACTIONS + 1] - begun_ns[TRANSACTIONS]);
}
