// SPDX-License-Identifier: BSD-2-Clause
/*
 * pgmeter: an Iometer for files. Sequential reads and writes, and the web server, file server and OLTP mixes, on
 * files much larger than memory, with so many requests outstanding a file. After Bryant, Forester and Hawkes, USENIX 2002.
 *
 *   pgmeter -D DIR -M MIXES -J DIR [-x TESTS] [-q OUTSTANDING] [-f FILES] [-m MIB] [-w SECONDS] [-l SECONDS]
 *           [-a SECONDS] [-s SEED]
 *
 * The files are laid out once. Each test, with each number of requests outstanding, begins with an unmount and a
 * mount, warms up for -w seconds and is measured for -l. It is a fio job, generated from the table of mixes and kept
 * in -J, with fio's log of a sample every -a seconds; the figure is the samples' mean. Requests go through the page
 * cache, each from a thread of its own. In sequential tests the threads take turns in the file: the first begins at
 * its first request, the next at its second, and each goes on behind the others' places.
 *
 * fio says how long it measured, not when: the measured phase is taken to end when fio says so, some hundredths of a
 * second late.
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

#include "common/fail.h"
#include "common/figures.h"
#include "common/numbers.h"
#include "common/options.h"
#include "common/phases.h"
#include "common/program.h"
#include "common/stats.h"
#include "common/steps.h"

#define TOP	    "pgmeter" /* the directory that is made */
#define ROWS_MAX    256
#define FILES_MAX   256
#define DEPTH_MAX   64
#define SAMPLES_MAX 3700 /* more than -l in the shortest samples */
#define NAME_BYTES  32
#define SECOND_NS   1000000000

struct settings {
	const char *dir, *mixes, *jobs, *tests, *outstanding;
	uint64_t files, mib, warmup_s, measured_s, sample_s, seed;
};

/* A row of the table: requests of one size in one test. */
struct mix {
	char test[NAME_BYTES];
	unsigned int bytes, pct, read_pct, random_pct;
};

struct result {
	double read_per_s, write_per_s;
	uint64_t kib;
	uint64_t ms;
};

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
		    (row->random_pct != 0 && row->random_pct != 100))
			fail(EXIT_WRONG_WORDS, "%s: a row cannot be used: %.*s", set.mixes,
			     (int)strcspn(line, "\n"), line);
		n_rows++;
	}
	fclose(in);
}

static const struct mix *find_test(const char *name)
{
	unsigned int pct = 0;
	const struct mix *first = NULL;

	for (int i = 0; i < n_rows; i++) {
		if (strcmp(rows[i].test, name) != 0)
			continue;
		first = first != NULL ? first : &rows[i];
		pct += rows[i].pct;
	}
	if (first == NULL)
		fail(EXIT_WRONG_WORDS, "pgmeter: there is no test %s; look into %s", name,
		     set.mixes);
	if (pct != 100)
		fail(EXIT_WRONG_WORDS, "%s: the rows of %s add up to %u %%, not 100", set.mixes,
		     name, pct);
	return first;
}

/* "read", "randwrite", "randrw" and so on, as fio calls it. */
static const char *way(const struct mix *test)
{
	if (test->read_pct == 100)
		return test->random_pct ? "randread" : "read";
	if (test->read_pct == 0)
		return test->random_pct ? "randwrite" : "write";
	return test->random_pct ? "randrw" : "rw";
}

static FILE *open_job(const char *name, char path[PATH_MAX])
{
	FILE *out;

	snprintf(path, PATH_MAX, "%s/pgmeter-%s.fio", set.jobs, name);
	out = fopen(path, "we");
	if (out == NULL)
		fail_errno("cannot be written", path);
	fprintf(out,
		"[global]\ndirectory=%s/" TOP "\nsize=%" PRIu64
		"m\nioengine=psync\nthread\ngroup_reporting\nfallocate=none\nrandseed=%" PRIu64
		"\n",
		set.dir, set.mib, set.seed);
	return out;
}

static void close_job(FILE *out, const char *path)
{
	if (ferror(out) || fclose(out) != 0)
		fail_errno("cannot be written", path);
}

static struct result run_fio(const char *path)
{
	const char *const argv[] = { "fio", "--minimal", "--terse-version=3", path, NULL };
	struct said said = { 0 };
	struct result result = { 0 };
	unsigned long long read_ms, write_ms, read_kib, write_kib;
	char *fields[64] = { 0 };
	char *at = said.first;
	int n = 0;

	program_run(argv, -1, &said);
	while (n < 64 && (fields[n] = strsep(&at, ";")) != NULL)
		n++;
	/* fio(1), terse output, version 3: each direction has kilobytes, their rate, requests a second, milliseconds */
	if (n < 50 || strcmp(fields[0], "3") != 0 || strcmp(fields[4], "0") != 0)
		fail(EXIT_RUN_FAILED, "fio: failed with error %s; look into %s and the output",
		     n > 4 ? fields[4] : "(none given)", path);
	read_kib = strtoull(fields[5], NULL, 10);
	write_kib = strtoull(fields[46], NULL, 10);
	result.read_per_s = strtod(fields[7], NULL);
	result.write_per_s = strtod(fields[48], NULL);
	read_ms = strtoull(fields[8], NULL, 10);
	write_ms = strtoull(fields[49], NULL, 10);
	result.kib = read_kib + write_kib;
	result.ms = read_ms > write_ms ? read_ms : write_ms;
	return result;
}

/* fio would find it full at some point, and say so in its own way. */
static void must_have_room(void)
{
	struct statvfs info;

	if (statvfs(set.dir, &info) != 0)
		fail_errno("cannot be asked for its room", set.dir);
	if (info.f_bavail * info.f_frsize < set.files * set.mib << 20)
		fail(EXIT_RUN_FAILED,
		     "%s: %" PRIu64 " MiB are free where %" PRIu64 " files of %" PRIu64
		     " MiB must fit; give a larger disk (SIZE=) or a smaller SCALE=",
		     set.dir, (uint64_t)(info.f_bavail * info.f_frsize) >> 20, set.files, set.mib);
}

static void lay_out(void)
{
	char path[PATH_MAX];
	FILE *out;

	must_have_room();
	out = open_job("layout", path);
	fprintf(out, "rw=write\nbs=1m\nend_fsync=1\n");
	for (uint64_t i = 0; i < set.files; i++)
		fprintf(out, "[file-%" PRIu64 "]\nfilename=file-%" PRIu64 "\n", i, i);
	close_job(out, path);
	step_begin("layout");
	run_fio(path);
	step_end(set.files, set.files * set.mib << 20);
}

/*
 * The samples of fio's log: a line for each time, thread and direction, one thread after the other. A line that is
 * not there is of a thread that did nothing then; but fio may leave out lines of the last time, which is then no
 * sample. LINES: of a whole one.
 */
static struct samples read_samples(const char *log, uint64_t lines)
{
	static uint64_t sums[SAMPLES_MAX], found[SAMPLES_MAX];
	struct samples samples = { 0 };
	uint64_t last = set.measured_s / set.sample_s;
	FILE *in = fopen(log, "re");
	unsigned long ms, rate;

	if (in == NULL)
		fail_errno("cannot be opened", log);
	memset(sums, 0, sizeof(sums));
	memset(found, 0, sizeof(found));
	while (fscanf(in, "%lu, %lu%*[^\n]", &ms, &rate) == 2) {
		uint64_t at = (ms + set.sample_s * 500) / (set.sample_s * 1000);

		if (at <= last) {
			sums[at] += rate;
			found[at]++;
		}
	}
	fclose(in);
	for (uint64_t i = 1; i <= last; i++)
		if (i < last || found[i] == lines)
			samples_add(&samples, (double)sums[i]);
	return samples;
}

static void say(const char *test, uint64_t outstanding, const struct result *result,
		const struct samples *samples)
{
	double rate = result->read_per_s + result->write_per_s;
	double half = samples->count > 1 ? samples_half_width(samples) : 0;

	printf("%-10s %4" PRIu64 " outstanding: %.0f requests/s, %.1f MB/s; ", test, outstanding,
	       rate, (double)result->kib * 1.024 / (double)result->ms);
	if (samples->count > 1)
		printf("samples: %.0f +- %.0f (95 %%, %lu of %" PRIu64 " s)\n",
		       samples_mean(samples), half, samples->count, set.sample_s);
	else
		printf("a single observation\n");
	fflush(stdout);
	figures_row("pgmeter",
		    "\"test\":\"%s\",\"outstanding\":%" PRIu64
		    ",\"requests_per_s\":%.1f,\"MB_per_s\":%.3f,\"samples\":%lu,"
		    "\"sample_mean\":%.1f,\"half_95_pct\":%.1f",
		    test, outstanding, rate, (double)result->kib * 1.024 / (double)result->ms,
		    samples->count, samples_mean(samples), half);
}

static void write_job(const char *name, char path[PATH_MAX], const struct mix *test,
		      uint64_t outstanding)
{
	FILE *out = open_job(name, path);
	const char *separator = "";

	fprintf(out,
		"rwmixread=%u\nnorandommap\ntime_based\nramp_time=%" PRIu64 "\nruntime=%" PRIu64
		"\nwrite_iops_log=%s/pgmeter-%s\nlog_avg_msec=%" PRIu64
		"\nper_job_logs=0\nbssplit=",
		test->read_pct, set.warmup_s, set.measured_s, set.jobs, name, set.sample_s * 1000);
	for (int i = 0; i < n_rows; i++) {
		if (strcmp(rows[i].test, test->test) == 0) {
			fprintf(out, "%s%u/%u", separator, rows[i].bytes, rows[i].pct);
			separator = ":";
		}
	}
	fprintf(out, "\n");
	for (uint64_t i = 0; i < set.files * outstanding; i++) {
		uint64_t file = i / outstanding, turn = i % outstanding;

		fprintf(out, "[%s-file-%" PRIu64 "-%" PRIu64 "]\nfilename=file-%" PRIu64 "\n", name,
			file, turn, file);
		if (test->random_pct)
			fprintf(out, "rw=%s\n", way(test));
		else
			fprintf(out, "rw=%s:%" PRIu64 "\noffset=%" PRIu64 "\nsize=%" PRIu64 "\n",
				way(test), (outstanding - 1) * test->bytes, turn * test->bytes,
				(set.mib << 20) - turn * test->bytes);
	}
	close_job(out, path);
}

static void measure(const struct mix *test, uint64_t outstanding)
{
	char name[2 * NAME_BYTES], path[PATH_MAX], log[PATH_MAX + 32];
	struct result result;
	struct samples samples;
	int64_t begin_ns, end_ns, from_ns;

	snprintf(name, sizeof(name), "%s-%" PRIu64, test->test, outstanding);
	write_job(name, path, test, outstanding);
	steps_make_cold();
	begin_ns = now_ns();
	result = run_fio(path);
	end_ns = now_ns();
	from_ns = end_ns - (int64_t)result.ms * (SECOND_NS / 1000);
	from_ns = from_ns > begin_ns ? from_ns : begin_ns;
	if (set.warmup_s)
		phase_done("warm-up", begin_ns, from_ns, 0, 0);
	phase_done(name, from_ns, end_ns,
		   (uint64_t)((result.read_per_s + result.write_per_s) * (double)result.ms / 1e3),
		   result.kib << 10);
	snprintf(log, sizeof(log), "%s/pgmeter-%s_iops.log", set.jobs, name);
	samples = read_samples(log, set.files * outstanding * (test->read_pct % 100 ? 2 : 1));
	say(test->test, outstanding, &result, &samples);
}

/* The tests write in place: every file must have its size, no less and no more. */
static void verify(void)
{
	char path[PATH_MAX];
	struct stat info;

	for (uint64_t i = 0; i < set.files; i++) {
		snprintf(path, sizeof(path), "%s/" TOP "/file-%" PRIu64, set.dir, i);
		if (stat(path, &info) != 0)
			fail_errno("cannot be found", path);
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
	       "  -D DIR          where the directory " TOP " is made ($SEEKMETER_DIR)\n"
	       "  -M MIXES        the table of tests (workloads/datasets/pgmeter.mixes)\n"
	       "  -J DIR          where fio's jobs and logs go\n"
	       "  -x TESTS        which of them, with commas between (seqread8,seqwrite8,web,file,oltp)\n"
	       "  -q OUTSTANDING  requests outstanding a file, in turn, with commas between (1,4,16,64)\n"
	       "  -f FILES        files, all worked on at once (1)\n"
	       "  -m MIB          of each file (1024)\n"
	       "  -w, -l SECONDS  of each test: warm-up, and measured (30, 300)\n"
	       "  -a SECONDS      of a sample (10)\n"
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

/* Calls each word of a list with commas between; to_measure: else the words are only checked. */
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
	figures_open();
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
