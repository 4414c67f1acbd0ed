// SPDX-License-Identifier: BSD-2-Clause
/* Runs postmark(1), marks its parts as phases, and checks the counts it reports; see postmark.h. */
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

#define FULL_SHARE 200 /* the disk counts as full below 1/200 of free blocks */

/* Parts of PostMark's work. PostMark prints one of these texts when the part begins. */
enum part { CREATE, TRANSACTIONS, DELETE, REMOVE, OVER, PARTS };
static const char *const part_texts[PARTS] = { "Creating files...", "Performing transactions",
					       "Deleting files...", "Deleting subdirectories...",
					       "Time:" };
static const char *const phase_names[] = { "postmark create", "postmark transactions",
					   "postmark delete" };

/* The counts and sums that PostMark reports. */
struct report {
	uint64_t created_alone, created, read, appended, deleted, deleted_alone;
	double read_bytes, written_bytes; /* PostMark rounds these sums to about a thousandth */
};

static int64_t begun_ns[PARTS];
static int begun;
static uint64_t kernel_read_bytes,
	kernel_written_bytes; /* of the process; 0: the kernel does not count I/O bytes */

/* PostMark ignores failed writes: on a full disk PostMark would be fast, and the result wrong. */
static void must_have_room(void)
{
	struct statvfs status;
	uint64_t spare;

	if (statvfs(POSTMARK_TOP, &status) != 0)
		fail_errno("cannot get its free space", POSTMARK_TOP);
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

/* Reads from /proc/PID/io how many bytes read(2) and write(2) of the process returned so far. */
static void read_kernel_bytes(pid_t pid)
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

static void fail_on_error(const char *output)
{
	const char *error = strstr(output, "Error: ");

	if (error != NULL) {
		must_have_room(); /* a full disk is the likely cause, with a better message */
		error += strlen("Error: ");
		fail(EXIT_RUN_FAILED, "postmark: %.*s%s", (int)strcspn(error, "\n"), error,
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
	/* with a single directory PostMark works in its location, and has no such part */
	if (part == REMOVE && strstr(output, part_texts[OVER]) != NULL)
		return true;
	return part < PARTS && strstr(output, part_texts[part]) != NULL;
}

static void on_output(struct program_output *output)
{
	int64_t now = begins(output->first, begun) ? phase_cut(0) : 0;

	while (begins(output->first, begun)) {
		begun_ns[begun] = now;
		if (begun < REMOVE) {
			phase_announce(phase_names[begun], now);
			printf("      %s\n", part_texts[begun]);
			fflush(stdout);
		}
		begun++;
	}
	if (begun > OVER)
		read_kernel_bytes(output->pid);
	fail_on_error(output->first);
	/* PostMark also prints a dot after each tenth of the transactions */
	if (begun > CREATE && begun <= DELETE + 1)
		must_have_room();
}

/* Writes the commands for PostMark into a memfd. Returns the descriptor. */
static int write_commands(const struct postmark *wanted)
{
	/* PostMark's seed is an int other than 0 */
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

/* Returns the start of the number before WORD, as in "\t11998 created (2999 per second)". */
static const char *before(const char *text, const char *word)
{
	const char *at = strstr(text, word);

	if (at == NULL)
		fail(EXIT_RUN_FAILED, "postmark: reports no count of '%s'", word);
	while (at > text && strchr(" .0123456789", at[-1]) != NULL)
		at--;
	return at;
}

static uint64_t number_before(const char *text, const char *word)
{
	return strtoull(before(text, word), NULL, 10);
}

/* Parses a sum such as "1.5 kilobytes read "; DONE is "read" or "written". */
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
	fail(EXIT_RUN_FAILED, "postmark: reports no sum of bytes %s", done);
}

/* Returns the number of files in the first line that begins with TITLE; 0: no such line. */
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
	/* bytes of PostMark's output and commands, and its rounding to hundredths */
	const double tolerance = 128 * 1024;

	if (counted > 0 && (double)counted + tolerance < reported * 0.99)
		fail(EXIT_RUN_FAILED,
		     "postmark: reports %s %.0f bytes, the kernel counted %" PRIu64
		     "; look in dmesg, and check the file system",
		     done, reported, counted);
}

static void check(const struct postmark *wanted, const struct report *report)
{
	uint64_t mixed =
		report->created - report->created_alone + report->deleted - report->deleted_alone;
	uint64_t used = report->read + report->appended;

	if (report->created_alone != wanted->files || report->created != report->deleted)
		fail(EXIT_RUN_FAILED,
		     "postmark: created %" PRIu64 " files for %" PRIu64 ", then %" PRIu64
		     " in all, deleted %" PRIu64 "; look in dmesg",
		     report->created_alone, wanted->files, report->created, report->deleted);
	/* PostMark's table holds twice the initial files; creates beyond that do nothing, without a message */
	if (mixed < wanted->transactions && wanted->create_tenths > 5)
		fail(EXIT_RUN_FAILED,
		     "postmark: has twice as many files as at the beginning, the most it keeps; give more files "
		     "or fewer transactions");
	/* PostMark skips the append to a file that has the largest size */
	if (mixed != wanted->transactions || used > wanted->transactions ||
	    used < wanted->transactions * 9 / 10)
		fail(EXIT_RUN_FAILED,
		     "postmark: %" PRIu64 " creates and deletes, %" PRIu64
		     " reads and appends, for %" PRIu64 " transactions; look in dmesg",
		     mixed, used, wanted->transactions);
	must_be_bytes("written", report->written_bytes, kernel_written_bytes);
	must_be_bytes("read", report->read_bytes, kernel_read_bytes);
}

static void write_results(const struct report *report, double rate)
{
	const struct {
		const char *name;
		uint64_t count;
	} parts[] = {
		{ "create alone", report->created_alone },
		{ "read", report->read },
		{ "append", report->appended },
		{ "create in transactions", report->created - report->created_alone },
		{ "delete in transactions", report->deleted - report->deleted_alone },
		{ "delete alone", report->deleted_alone },
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
	/* stdin by name: without an argument PostMark would print a prompt for each command */
	const char *const argv[] = { "postmark", "/dev/stdin", NULL };
	struct program_output output = { .on_output = on_output, .with_stderr = true };
	int in = write_commands(wanted);
	struct report report;

	if (mkdir(POSTMARK_TOP, 0755) != 0)
		fail_errno("cannot make the directory", POSTMARK_TOP);
	begun = 0;
	kernel_read_bytes = kernel_written_bytes = 0;
	own_cpu_begin();
	program_run(argv, in, &output);
	own_cpu_end(1);
	close(in);
	if (begun != PARTS)
		fail(EXIT_RUN_FAILED, "postmark: ended before '%s'", part_texts[begun]);
	fputs(strstr(output.first, part_texts[OVER]), stdout);
	report = read_report(output.first);
	check(wanted, &report);
	phase_done(phase_names[CREATE], begun_ns[CREATE], begun_ns[CREATE + 1],
		   report.created_alone, 0);
	phase_done(phase_names[TRANSACTIONS], begun_ns[TRANSACTIONS], begun_ns[TRANSACTIONS + 1],
		   wanted->transactions, 0);
	phase_done(phase_names[DELETE], begun_ns[DELETE], begun_ns[DELETE + 1],
		   report.deleted_alone, 0);
	if (rmdir(POSTMARK_TOP) != 0) /* fails unless PostMark has deleted all files */
		fail_errno("cannot delete the directory", POSTMARK_TOP);
	write_results(&report,
		      (double)wanted->transactions * 1e9 /
			      (double)(begun_ns[TRANSACTIONS + 1] - begun_ns[TRANSACTIONS]));
}
