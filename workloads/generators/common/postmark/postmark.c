// SPDX-License-Identifier: BSD-2-Clause
/* Runs postmark(1), makes its parts phases, and checks its counts; see postmark.h. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"
#include "postmark.h"
#include "common/session/program.h"

#define FULL_SHARE 200 /* a disk with less than this part of it left is full */

/* It says each of these, at once, when that part begins. */
enum part { CREATE, TRANSACTIONS, DELETE, REMOVE, OVER, PARTS };
static const char *const words[PARTS] = { "Creating files...", "Performing transactions",
					  "Deleting files...", "Deleting subdirectories...",
					  "Time:" };
static const char *const names[] = { "postmark create", "postmark transactions",
				     "postmark delete" };

/* What it says that it did, and what the kernel counted meanwhile. */
struct report {
	uint64_t created_alone, created, read, appended, deleted, deleted_alone;
	double read_bytes, written_bytes; /* as it sums them, to about a thousandth */
};

static int64_t begun_ns[PARTS];
static int begun;
static uint64_t kernel_read_bytes, kernel_written_bytes; /* 0: the kernel does not count them */

/* PostMark does not look at whether a write succeeded: a full disk would make it fast. */
static void must_have_room(void)
{
	struct statvfs status;
	uint64_t spare;

	if (statvfs(POSTMARK_TOP, &status) != 0)
		fail_errno("cannot be asked for its room", POSTMARK_TOP);
	spare = status.f_blocks / FULL_SHARE;
	if (status.f_bavail <= spare || (status.f_files > 0 && status.f_favail == 0))
		fail(EXIT_RUN_FAILED,
		     "postmark: the disk is full; give a larger disk (SIZE=) or a smaller SCALE=");
}

static bool is_read_only(void)
{
	struct statvfs status;

	return statvfs(POSTMARK_TOP, &status) == 0 && (status.f_flag & ST_RDONLY);
}

/* What read(2) and write(2) of the process, which has not been waited for, gave so far. */
static void look_at_kernel_bytes(pid_t pid)
{
	char path[64];
	FILE *counts;

	snprintf(path, sizeof(path), "/proc/%d/io", pid);
	counts = fopen(path, "re");
	if (counts == NULL)
		return;
	if (fscanf(counts, "rchar: %" SCNu64 " wchar: %" SCNu64, &kernel_read_bytes,
		   &kernel_written_bytes) != 2)
		kernel_read_bytes = kernel_written_bytes = 0;
	fclose(counts);
}

static void must_not_complain(const char *output)
{
	const char *complaint = strstr(output, "Error: ");

	if (complaint != NULL) {
		must_have_room(); /* which would be why */
		complaint += strlen("Error: ");
		fail(EXIT_RUN_FAILED, "postmark: %.*s%s", (int)strcspn(complaint, "\n"), complaint,
		     is_read_only()
			     ? ": read-only file system; look in dmesg"
			     : "; look in dmesg, or give a larger disk (SIZE=) if it was full");
	}
	if (strstr(output, "out of files!") != NULL)
		fail(EXIT_RUN_FAILED,
		     "postmark: deleted all its files; give more files or fewer transactions");
}

static bool begins(const char *output, int part)
{
	/* a single directory is the one it was told, and stays */
	if (part == REMOVE && strstr(output, words[OVER]) != NULL)
		return true;
	return part < PARTS && strstr(output, words[part]) != NULL;
}

static void on_output(struct program_output *output)
{
	int64_t now = begins(output->first, begun) ? phase_cut(0) : 0;

	while (begins(output->first, begun)) {
		begun_ns[begun] = now;
		if (begun < REMOVE) {
			phase_announce(names[begun], now);
			printf("      %s\n", words[begun]);
			fflush(stdout);
		}
		begun++;
	}
	if (begun > OVER)
		look_at_kernel_bytes(output->pid);
	must_not_complain(output->first);
	/* it says something after each tenth of the transactions, too */
	if (begun > CREATE && begun <= DELETE + 1)
		must_have_room();
}

/* Its commands, as a file without a name. */
static int write_commands(const struct postmark *wanted)
{
	/* it takes an int, and no 0 */
	uint64_t seed = wanted->seed % INT32_MAX ? wanted->seed % INT32_MAX : INT32_MAX;
	int fd = memfd_create("commands of postmark", MFD_CLOEXEC);

	if (fd < 0 ||
	    dprintf(fd,
		    "set location " POSTMARK_TOP "\nset number %" PRIu64
		    "\nset transactions %" PRIu64 "\nset subdirectories %" PRIu64
		    "\nset size %" PRIu64 " %" PRIu64 "\nset read %" PRIu64 "\nset write %" PRIu64
		    "\nset bias read %" PRIu64 "\nset bias create %" PRIu64 "\nset seed %" PRIu64
		    "\nset buffering false\nset report verbose\nrun\nquit\n",
		    wanted->files, wanted->transactions, wanted->subdirectories, wanted->bytes_min,
		    wanted->bytes_max, wanted->io_bytes, wanted->io_bytes, wanted->read_tenths,
		    wanted->create_tenths, seed) < 0)
		fail_errno("cannot be written", "the commands of postmark");
	return fd;
}

/* Where the number before WORD begins, as in "\t11998 created (2999 per second)". */
static const char *before(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	if (at == NULL)
		fail(EXIT_RUN_FAILED, "postmark: does not say how many '%s'", word);
	while (at > text && strchr(" .0123456789", at[-1]) != NULL)
		at--;
	return at;
}

static uint64_t number_before(const char *text, const char *word)
{
	return strtoull(before(text, word), NULL, 10);
}

/* "1.5 kilobytes read " */
static double bytes_of(const char *text, const char *done)
{
	static const struct {
		const char *name;
		double bytes;
	} units[] = { { "bytes", 1 }, { "kilobytes", 1024 }, { "megabytes", 1024 * 1024 } };
	char word[64];

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		snprintf(word, sizeof(word), " %s %s ", units[i].name, done);
		if (strstr(text, word) != NULL)
			return strtod(before(text, word), NULL) * units[i].bytes;
	}
	fail(EXIT_RUN_FAILED, "postmark: does not say how much was %s", done);
}

/* The number of files in the first line that begins with TITLE. */
static uint64_t files_of(const char *text, const char *title)
{
	const char *at = strstr(text, title);

	return at != NULL ? number_before(at, " files") : 0;
}

static struct report read_report(const char *text)
{
	return (struct report){
		.created_alone = files_of(text, "Creation alone"),
		.created = number_before(text, " created"),
		.read = number_before(text, " read ("),
		.appended = number_before(text, " appended"),
		.deleted = number_before(text, " deleted"),
		.deleted_alone = files_of(text, "Deletion alone"),
		.read_bytes = bytes_of(text, "read"),
		.written_bytes = bytes_of(text, "written"),
	};
}

static void must_be_bytes(const char *done, double reported, uint64_t counted)
{
	/* its output, what it read to begin with, and the hundredths that it rounds to */
	const double besides = 128 * 1024;

	if (counted > 0 && (double)counted + besides < reported * 0.99)
		fail(EXIT_RUN_FAILED,
		     "postmark: says it has %s %.0f bytes, by the kernel's count it was %" PRIu64
		     "; look in dmesg, and check the file system",
		     done, reported, counted);
}

static void check(const struct postmark *wanted, const struct report *did)
{
	uint64_t mixed = did->created - did->created_alone + did->deleted - did->deleted_alone;
	uint64_t used = did->read + did->appended;

	if (did->created_alone != wanted->files || did->created != did->deleted)
		fail(EXIT_RUN_FAILED,
		     "postmark: created %" PRIu64 " files for %" PRIu64 ", then %" PRIu64
		     " in all, deleted %" PRIu64 "; look in dmesg",
		     did->created_alone, wanted->files, did->created, did->deleted);
	/* PostMark leaves out files beyond the room of its table, without a message */
	if (mixed < wanted->transactions && wanted->create_tenths > 5)
		fail(EXIT_RUN_FAILED,
		     "postmark: had twice as many files as at the beginning, and makes no more; give more files or "
		     "fewer transactions");
	/* it appends nothing to a file that has its largest size */
	if (mixed != wanted->transactions || used > wanted->transactions ||
	    used < wanted->transactions * 9 / 10)
		fail(EXIT_RUN_FAILED,
		     "postmark: %" PRIu64 " creates and deletes, %" PRIu64
		     " reads and appends, for %" PRIu64 " transactions; look in dmesg",
		     mixed, used, wanted->transactions);
	must_be_bytes("written", did->written_bytes, kernel_written_bytes);
	must_be_bytes("read", did->read_bytes, kernel_read_bytes);
}

static void tell(const struct report *did, double rate)
{
	const struct {
		const char *name;
		uint64_t count;
	} parts[] = {
		{ "create alone", did->created_alone },
		{ "read", did->read },
		{ "append", did->appended },
		{ "create in transactions", did->created - did->created_alone },
		{ "delete in transactions", did->deleted - did->deleted_alone },
		{ "delete alone", did->deleted_alone },
	};

	printf("PostMark: %.1f transactions/s\n", rate);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		results_row("postmark operations", "\"operation\":\"%s\",\"count\":%" PRIu64,
			    parts[i].name, parts[i].count);
	results_row("", "\"postmark_transactions_per_s\":%.1f", rate);
	if (kernel_written_bytes > 0)
		results_row("",
			    "\"postmark_read_bytes\":%" PRIu64
			    ",\"postmark_written_bytes\":%" PRIu64,
			    kernel_read_bytes, kernel_written_bytes);
}

void postmark_run(const struct postmark *wanted)
{
	/* opened by name, as else it would prompt for each command */
	const char *const argv[] = { "postmark", "/dev/stdin", NULL };
	struct program_output output = { .on_output = on_output, .with_stderr = true };
	int in = write_commands(wanted);
	struct report did;

	if (mkdir(POSTMARK_TOP, 0755) != 0)
		fail_errno("cannot make the directory", POSTMARK_TOP);
	begun = 0;
	kernel_read_bytes = kernel_written_bytes = 0;
	own_cpu_begin();
	program_run(argv, in, &output);
	own_cpu_end(1);
	close(in);
	if (begun != PARTS)
		fail(EXIT_RUN_FAILED, "postmark: did not come to '%s'", words[begun]);
	fputs(strstr(output.first, words[OVER]), stdout);
	did = read_report(output.first);
	check(wanted, &did);
	phase_done(names[CREATE], begun_ns[CREATE], begun_ns[CREATE + 1], did.created_alone, 0);
	phase_done(names[TRANSACTIONS], begun_ns[TRANSACTIONS], begun_ns[TRANSACTIONS + 1],
		   wanted->transactions, 0);
	phase_done(names[DELETE], begun_ns[DELETE], begun_ns[DELETE + 1], did.deleted_alone, 0);
	if (rmdir(POSTMARK_TOP) != 0) /* only if it is empty, as it must be */
		fail_errno("cannot delete the directory", POSTMARK_TOP);
	tell(&did, (double)wanted->transactions * 1e9 /
			   (double)(begun_ns[TRANSACTIONS + 1] - begun_ns[TRANSACTIONS]));
}
