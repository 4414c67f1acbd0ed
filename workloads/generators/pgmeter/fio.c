// SPDX-License-Identifier: BSD-2-Clause
/*
 * pgmeter's fio jobs: the layout, and the mixes. A mix's requests have random offsets, each from a thread of its own.
 *
 * fio by default drops a file's cached pages whenever a thread has done as much I/O as the file is long
 * (invalidate), and gives the kernel hints on the access order (fadvise_hint). No server does either, so both are off;
 * the remount before has made the caches cold.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/session/fail.h"
#include "common/session/fio_error.h"
#include "common/session/phases.h"
#include "common/session/program.h"
#include "tests.h"

static FILE *open_job(const struct settings *set, const char *name, char path[PATH_MAX])
{
	FILE *out;

	snprintf(path, PATH_MAX, "%s/pgmeter-%s.fio", set->jobs, name);
	out = fopen(path, "we");
	if (out == NULL)
		fail_errno("cannot be written", path);
	fprintf(out,
		"[global]\ndirectory=%s/" TOP "\nsize=%" PRIu64
		"m\nioengine=psync\nthread\ngroup_reporting\nfallocate=none\ninvalidate=0\n"
		"fadvise_hint=0\nrandseed=%" PRIu64 "\n",
		set->dir, set->mib, set->seed);
	return out;
}

static void close_job(FILE *out, const char *path)
{
	if (ferror(out) || fclose(out) != 0)
		fail_errno("cannot be written", path);
}

struct outcome {
	double requests_per_s;
	uint64_t kib, ms;
};

/* Ends the program with fio's error message; PATH: the job file. */
static void fail_fio(const struct program_output *output, const char *path)
{
	const char *name = strrchr(path, '/');

	fio_failed(output, name != NULL ? name + 1 : path);
}

static struct outcome run_fio(const char *path)
{
	const char *const argv[] = { "fio", "--minimal", "--terse-version=3", path, NULL };
	struct program_output output = { .with_stderr = true, .may_fail = true };
	struct outcome outcome = { 0 };
	unsigned long long read_ms, write_ms;
	char *fields[64] = { 0 };
	char *at;
	int n = 0;

	program_run(argv, -1, &output);
	if (output.exit_status != 0)
		fail_fio(&output, path);
	at = strncmp(output.first, "3;", 2) == 0 ? output.first : strstr(output.first, "\n3;");
	while (at != NULL && n < 64 && (fields[n] = strsep(&at, ";")) != NULL)
		n++;
	/* fio(1), terse output, version 3: each direction has kilobytes, their rate, requests a second, milliseconds */
	if (n < 50 || strcmp(fields[4], "0") != 0)
		fail_fio(&output, path);
	read_ms = strtoull(fields[8], NULL, 10);
	write_ms = strtoull(fields[49], NULL, 10);
	outcome.requests_per_s = strtod(fields[7], NULL) + strtod(fields[48], NULL);
	outcome.kib = strtoull(fields[5], NULL, 10) + strtoull(fields[46], NULL, 10);
	outcome.ms = read_ms > write_ms ? read_ms : write_ms;
	return outcome;
}

void fio_lay_out(const struct settings *set)
{
	char path[PATH_MAX];
	FILE *out = open_job(set, "layout", path);

	fprintf(out, "rw=write\nbs=1m\nend_fsync=1\n");
	for (uint64_t i = 0; i < set->files; i++)
		fprintf(out, "[file-%" PRIu64 "]\nfilename=file-%" PRIu64 "\n", i, i);
	close_job(out, path);
	run_fio(path);
}

static void write_job(const struct settings *set, const char *name, char path[PATH_MAX],
		      const struct mix *rows, int n, uint64_t outstanding)
{
	FILE *out = open_job(set, name, path);

	fprintf(out,
		"rw=%s\nrwmixread=%u\nnorandommap\ntime_based\nramp_time=%" PRIu64
		"\nruntime=%" PRIu64 "\nwrite_iops_log=%s/pgmeter-%s\nlog_avg_msec=%" PRIu64
		"\nper_job_logs=0\nbssplit=",
		rows[0].read_pct == 100 ? "randread"
		: rows[0].read_pct	? "randrw"
					: "randwrite",
		rows[0].read_pct, set->warmup_s, set->measured_s, set->jobs, name,
		set->sample_s * 1000);
	for (int i = 0; i < n; i++)
		fprintf(out, "%s%u/%u", i ? ":" : "", rows[i].bytes, rows[i].pct);
	fprintf(out, "\n");
	for (uint64_t i = 0; i < set->files * outstanding; i++) {
		uint64_t file = i / outstanding;

		fprintf(out, "[%s-file-%" PRIu64 "-%" PRIu64 "]\nfilename=file-%" PRIu64 "\n", name,
			file, i % outstanding, file);
	}
	close_job(out, path);
}

struct result fio_measure(const struct settings *set, const char *name, const struct mix *rows,
			  int n, uint64_t outstanding)
{
	int64_t begin_ns = now_ns();
	struct result result;
	struct outcome outcome;
	char path[PATH_MAX];

	write_job(set, name, path, rows, n, outstanding);
	outcome = run_fio(path);
	result.end_ns = now_ns();
	result.start_ns = result.end_ns - (int64_t)outcome.ms * (SECOND_NS / 1000);
	if (result.start_ns < begin_ns)
		result.start_ns = begin_ns;
	result.requests = (uint64_t)(outcome.requests_per_s * (double)outcome.ms / 1e3);
	result.bytes = outcome.kib << 10;
	/* one line for each thread and direction */
	result.log_lines = set->files * outstanding * (rows[0].read_pct % 100 ? 2 : 1);
	return result;
}
