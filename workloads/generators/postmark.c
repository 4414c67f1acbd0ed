// SPDX-License-Identifier: BSD-2-Clause
/*
 * postmark: runs Debian's postmark(1) (PostMark, Katcher 1997) and marks its parts as phases. Its options mean the same
 * as filemark's, so that the two can be compared.
 *
 *   postmark -D DIR [-n FILES] [-d DIRS] [-l BYTES] [-u BYTES] [-b BYTES] [-r PERCENT] [-c PERCENT] [-o TRANSACTIONS]
 *            [-s SEED]
 *
 * PostMark creates FILES files of -l to -u bytes, does TRANSACTIONS transactions, and deletes all remaining files. A
 * transaction has two operations: one file is read whole or appended to; then a file is created or deleted.
 */
#include <stdio.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/session/options.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"
#include "common/postmark/postmark.h"

#define NUMBER_MAX 100000000 /* postmark(1) counts in an int */
#define BYTES_MAX  (1 << 30)

static void usage(void)
{
	printf("usage: postmark [-D DIR] [-n FILES] [-d DIRS] [-l BYTES] [-u BYTES] [-b BYTES]\n"
	       "                [-r PERCENT] [-c PERCENT] [-o TRANSACTIONS] [-s SEED]\n"
	       "  -D DIR           directory in which " POSTMARK_TOP " is made ($SEEKMETER_DIR)\n"
	       "  -n FILES         files at the beginning (10000)\n"
	       "  -d DIRS          directories of the files (10)\n"
	       "  -l, -u BYTES     size of the smallest and the largest file (512, 10004)\n"
	       "  -b BYTES         size of a read or write (512)\n"
	       "  -r PERCENT       share of reads, in tens; the others are appends (50)\n"
	       "  -c PERCENT       share of creates, in tens; the others are deletes (50)\n"
	       "  -o TRANSACTIONS  number of transactions (40000)\n"
	       "  -s SEED          the same seed gives the same operations ($SEEKMETER_SEED, else 1)\n");
}

static uint64_t tenths(const char *option, uint64_t percent)
{
	if (percent % 10 != 0)
		fail(EXIT_WRONG_WORDS,
		     "postmark: %s takes whole tens of percent, as PostMark does; filemark takes any",
		     option);
	return percent / 10;
}

int main(int argc, char **argv)
{
	const char *dir;
	uint64_t read_pct = 50, create_pct = 50;
	struct postmark wanted = { .files = 10000,
				   .transactions = 40000,
				   .subdirectories = 10,
				   .bytes_min = 512,
				   .bytes_max = 10004,
				   .io_bytes = 512 };
	const struct choice choices[] = {
		{ .letter = 'n', .number = &wanted.files, .min = 1, .max = NUMBER_MAX },
		{ .letter = 'd', .number = &wanted.subdirectories, .min = 1, .max = 99999 },
		{ .letter = 'l', .number = &wanted.bytes_min, .min = 1, .max = BYTES_MAX },
		{ .letter = 'u', .number = &wanted.bytes_max, .min = 1, .max = BYTES_MAX },
		{ .letter = 'b', .number = &wanted.io_bytes, .min = 1, .max = BYTES_MAX },
		{ .letter = 'r', .number = &read_pct, .max = 100 },
		{ .letter = 'c', .number = &create_pct, .max = 100 },
		{ .letter = 'o', .number = &wanted.transactions, .min = 1, .max = NUMBER_MAX },
	};
	const struct generator generator = { "postmark", usage, &dir, &wanted.seed };

	parse_options(&generator, CHOICES(choices), argc, argv);
	wanted.read_tenths = tenths("-r", read_pct);
	wanted.create_tenths = tenths("-c", create_pct);
	if (wanted.bytes_min > wanted.bytes_max)
		fail(EXIT_WRONG_WORDS, "postmark: -l is above -u; see --help");
	phases_open();
	results_open();
	if (chdir(dir) != 0)
		fail_errno("cannot enter the directory", dir);
	postmark_run(&wanted);
	own_cpu_report();
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
