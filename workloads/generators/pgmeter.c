// SPDX-License-Identifier: BSD-2-Clause
/*
 * pgmeter: an Iometer for files. Sequential reads and writes, and the web server, file server and OLTP mixes, on files
 * much larger than memory, with a given number of requests outstanding per file. After Bryant, Forester and Hawkes,
 * USENIX 2002.
 *
 *   pgmeter -D DIR -M MIXES -J DIR [-x TESTS] [-q OUTSTANDING] [-f FILES] [-m MIB] [-w SECONDS] [-l SECONDS]
 *           [-a SECONDS] [-s SEED]
 *
 * The files are laid out once. Each test, with each number of requests outstanding, begins with an unmount and a mount,
 * warms up for -w seconds and is measured for -l seconds. A sample is taken every -a seconds; the result is the
 * samples' mean. Requests go through the page cache, each from a thread of its own. The mixes are fio jobs, generated
 * from the table and kept in -J; the sequential tests are done here (sequential.c has the reason).
 *
 * fio reports how long it measured, not when: the measured phase of a mix is taken to end when fio ends, some
 * hundredths of a second late.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/files/contents.h"
#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/stats/numbers.h"
#include "common/session/options.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"
#include "common/stats/stats.h"
#include "common/session/steps.h"
#include "pgmeter/tests.h"

#define ROWS_MAX    256
#define FILES_MAX   256
#define DEPTH_MAX   64
#define SAMPLES_MAX 3700 /* more than -l in the shortest samples */

static struct settings set;
static struct mix rows[ROWS_MAX];
static int n_rows;

static void read_mixes(void)
{
	FILE *in = fopen(set.mixes, "re");
	char line[256];

	if (in == NULL)
		fail_errno("cannot be opened", set.mixes);
	while (fgets(line, sizeof(line), in) != NULL) {
		struct mix *row = &rows[n_rows];

		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (n_rows == ROWS_MAX ||
		    sscanf(line, "%31s %u %u %u %u", row->test, &row->bytes, &row->pct,
			   &row->read_pct, &row->random_pct) != 5 ||
		    row->bytes < 512 || row->pct > 100 || row->read_pct > 100 ||
		    (row->random_pct != 0 && row->random_pct != 100) ||
		    (row->random_pct == 0 && (row->pct != 100 || row->read_pct % 100 != 0)))
			fail(EXIT_WRONG_WORDS, "%s: a row cannot be used: %.*s", set.mixes,
			     (int)strcspn(line, "\n"), line);
		n_rows++;
	}
	fclose(in);
}

/* Returns the number of rows of the test that begins at FIRST; the rows of a test are adjacent. */
static int rows_of(const struct mix *first)
{
	int n = 0;

	while (first + n < rows + n_rows && strcmp(first[n].test, first->test) == 0)
		n++;
	return n;
}

static const struct mix *find_test(const char *name)
{
	unsigned int pct = 0;
	int first = 0;

	while (first < n_rows && strcmp(rows[first].test, name) != 0)
		first++;
	if (first == n_rows)
		fail(EXIT_WRONG_WORDS, "pgmeter: there is no test %s; look into %s", name,
		     set.mixes);
	for (int i = first; i < first + rows_of(&rows[first]); i++)
		pct += rows[i].pct;
	if (pct != 100)
		fail(EXIT_WRONG_WORDS, "%s: the rows of %s add up to %u %%, not 100", set.mixes,
		     name, pct);
	return &rows[first];
}

/* Checks the free space before fio runs out of it, for a message with a remedy. */
static void must_have_room(void)
{
	struct statvfs info;

	if (statvfs(set.dir, &info) != 0)
		fail_errno("cannot get its free space", set.dir);
	if (info.f_bavail * info.f_frsize < set.files * set.mib << 20)
		fail(EXIT_RUN_FAILED,
		     "%s: %" PRIu64 " MiB are free where %" PRIu64 " files of %" PRIu64
		     " MiB must fit; give a larger disk (SIZE=) or a smaller SCALE=",
		     set.dir, (uint64_t)(info.f_bavail * info.f_frsize) >> 20, set.files, set.mib);
}

static void lay_out(void)
{
	must_have_room();
	step_begin("layout");
	fio_lay_out(&set);
	step_end(set.files, set.files * set.mib << 20);
}

/*
 * Reads the samples of a log. The log has a line for each time, thread and direction, sorted by thread. A missing line
 * means that the thread did nothing in that time. But fio may leave out lines of the last time, which then is no
 * sample. LINES: number of lines of a complete sample.
 */
static struct samples read_samples(const char *log, uint64_t lines)
{
	static uint64_t sums[SAMPLES_MAX], line_counts[SAMPLES_MAX];
	struct samples samples = { 0 };
	uint64_t last = set.measured_s / set.sample_s;
	FILE *in = fopen(log, "re");
	unsigned long ms, rate;

	if (in == NULL)
		fail_errno("cannot be opened", log);
	memset(sums, 0, sizeof(sums));
	memset(line_counts, 0, sizeof(line_counts));
	while (fscanf(in, "%lu, %lu%*[^\n]", &ms, &rate) == 2) {
		uint64_t at = (ms + set.sample_s * 500) / (set.sample_s * 1000);

		if (at <= last) {
			sums[at] += rate;
			line_counts[at]++;
		}
	}
	fclose(in);
	for (uint64_t i = 1; i <= last; i++)
		if (i < last || line_counts[i] == lines)
			samples_add(&samples, (double)sums[i]);
	return samples;
}

static void report_test(const char *test, uint64_t outstanding, const struct result *result,
			const struct samples *samples)
{
	double seconds = (double)(result->end_ns - result->start_ns) / (double)SECOND_NS;
	double rate = (double)result->requests / seconds;
	double mb_per_s = (double)result->bytes / 1e6 / seconds;
	double half = samples->count > 1 ? samples_half_width(samples) : 0;

	printf("%-10s %4" PRIu64 " outstanding: %.0f requests/s, %.1f MB/s; ", test, outstanding,
	       rate, mb_per_s);
	if (samples->count > 1)
		printf("samples: %.0f +- %.0f (95 %%, %lu of %" PRIu64 " s)\n",
		       samples_mean(samples), half, samples->count, set.sample_s);
	else
		printf("a single observation\n");
	fflush(stdout);
	results_row("pgmeter",
		    "\"test\":\"%s\",\"outstanding\":%" PRIu64
		    ",\"requests_per_s\":%.1f,\"MB_per_s\":%.3f,\"samples\":%lu,"
		    "\"sample_mean\":%.1f,\"half_95_pct\":%.1f",
		    test, outstanding, rate, mb_per_s, samples->count, samples_mean(samples), half);
}

static void measure(const struct mix *test, uint64_t outstanding)
{
	char name[2 * NAME_BYTES], log[PATH_MAX];
	struct result result;
	struct samples samples;
	int64_t begin_ns;

	snprintf(name, sizeof(name), "%s-%" PRIu64, test->test, outstanding);
	steps_make_cold();
	if (set.warmup_s)
		phase_announce("warm-up", now_ns());
	phase_announce(name, now_ns() + (int64_t)set.warmup_s * SECOND_NS);
	begin_ns = phase_begin();
	own_cpu_begin();
	if (test->random_pct == 0)
		result = sequential_measure(&set, name, test, outstanding);
	else
		result = fio_measure(&set, name, test, rows_of(test), outstanding);
	own_cpu_end(set.files * outstanding);
	if (set.warmup_s)
		phase_done("warm-up", begin_ns, result.start_ns, 0, 0);
	phase_done(name, result.start_ns, result.end_ns, result.requests, result.bytes);
	log_path(&set, name, log);
	samples = read_samples(log, result.log_lines);
	report_test(test->test, outstanding, &result, &samples);
}

/* The tests write in place: every file must still have the size of the layout. */
static void verify(void)
{
	char path[PATH_MAX];
	struct stat info;

	for (uint64_t i = 0; i < set.files; i++) {
		snprintf(path, sizeof(path), "%s/" TOP "/file-%" PRIu64, set.dir, i);
		if (stat(path, &info) != 0)
			fail_errno("cannot stat", path);
		if ((uint64_t)info.st_size != set.mib << 20)
			fail(EXIT_RUN_FAILED,
			     "%s: has %" PRIu64 " bytes where %" PRIu64
			     " must be; look in dmesg, and check the file system",
			     path, (uint64_t)info.st_size, set.mib << 20);
	}
	printf("verified: %" PRIu64 " files have their size\n", set.files);
}

static void usage(void)
{
	printf("usage: pgmeter [-D DIR] -M MIXES -J DIR [-x TESTS] [-q OUTSTANDING] [-f FILES] [-m MIB]\n"
	       "               [-w SECONDS] [-l SECONDS] [-a SECONDS] [-s SEED]\n"
	       "  -D DIR          directory in which " TOP " is made ($SEEKMETER_DIR)\n"
	       "  -M MIXES        the table of tests (workloads/datasets/pgmeter.mixes)\n"
	       "  -J DIR          directory of fio's jobs and logs\n"
	       "  -x TESTS        tests, separated by commas (seqread8,seqwrite8,web,file,oltp)\n"
	       "  -q OUTSTANDING  numbers of requests outstanding per file, separated by commas (1,4,16,64)\n"
	       "  -f FILES        number of files, all used at once (1)\n"
	       "  -m MIB          size of each file (1024)\n"
	       "  -w, -l SECONDS  warm-up and measured time of each test (30, 300)\n"
	       "  -a SECONDS      length of a sample (10)\n"
	       "  -s SEED         the same seed gives the same requests ($SEEKMETER_SEED, else 1)\n");
}

static void read_settings(int argc, char **argv)
{
	const struct choice choices[] = {
		{ .letter = 'M', .text = &set.mixes },
		{ .letter = 'J', .text = &set.jobs },
		{ .letter = 'x', .text = &set.tests },
		{ .letter = 'q', .text = &set.outstanding },
		{ .letter = 'f', .number = &set.files, .min = 1, .max = FILES_MAX },
		{ .letter = 'm', .number = &set.mib, .min = 8, .max = 1 << 24 },
		{ .letter = 'w', .number = &set.warmup_s, .max = 3600 },
		{ .letter = 'l', .number = &set.measured_s, .min = 1, .max = 3600 },
		{ .letter = 'a', .number = &set.sample_s, .min = 1, .max = 3600 },
	};
	const struct generator generator = { "pgmeter", usage, &set.dir, &set.seed };

	set = (struct settings){ .tests = "seqread8,seqwrite8,web,file,oltp",
				 .outstanding = "1,4,16,64",
				 .files = 1,
				 .mib = 1024,
				 .warmup_s = 30,
				 .measured_s = 300,
				 .sample_s = 10 };
	parse_options(&generator, CHOICES(choices), argc, argv);
	if (set.mixes == NULL || set.jobs == NULL)
		fail(EXIT_WRONG_WORDS, "pgmeter: -M and -J are needed; see --help");
}

/* Runs every test of -x with every number of -q. to_measure false: only checks the names and numbers. */
static void each_test(bool to_measure)
{
	char tests[256], depths[256], *test_rest, *depth_rest;

	snprintf(tests, sizeof(tests), "%s", set.tests);
	for (char *test = strtok_r(tests, ",", &test_rest); test != NULL;
	     test = strtok_r(NULL, ",", &test_rest)) {
		const struct mix *mix = find_test(test);

		snprintf(depths, sizeof(depths), "%s", set.outstanding);
		for (char *depth = strtok_r(depths, ",", &depth_rest); depth != NULL;
		     depth = strtok_r(NULL, ",", &depth_rest)) {
			uint64_t outstanding = parse_number("-q", depth, 1, DEPTH_MAX);

			if (to_measure)
				measure(mix, outstanding);
		}
	}
}

int main(int argc, char **argv)
{
	char path[PATH_MAX];

	read_settings(argc, argv);
	read_mixes();
	each_test(false);
	phases_open();
	results_open();
	contents_init();
	snprintf(path, sizeof(path), "%s/" TOP, set.dir);
	if (mkdir(path, 0755) != 0)
		fail_errno("cannot make the directory", path);
	printf("pgmeter in %s: %" PRIu64 " files of %" PRIu64
	       " MiB, tests %s, outstanding %s, seed %" PRIu64 "\n",
	       set.dir, set.files, set.mib, set.tests, set.outstanding, set.seed);
	lay_out();
	each_test(true);
	verify();
	steps_finish();
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
