// SPDX-License-Identifier: BSD-2-Clause
/*
 * fio_phases: runs fio(1) in two phases, "layout" (it creates the files that the jobs read) and "measured", and passes
 * on fio's results.
 *
 *   fio_phases --output=FILE [OPTION]...
 *
 * All options are fio's. fio runs twice with them: first with create_only added, then as given; FILE gets the JSON of
 * the second run. Files that are only written need no layout, so such jobs have no layout phase. fio reports how long
 * it measured, not when: the measured phase is taken to end when fio ends, some hundredths of a second late.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/session/fio_error.h"
#include "common/stats/numbers.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"
#include "common/session/program.h"

#define OPTIONS_MAX    256
#define THREADS_MAX    100000
#define JSON_BYTES_MAX (64 << 20)
#define WALK_FILES     16
#define VALUE_BYTES    32 /* a number as text */

static const char *json_path;
static uint64_t laid_out_bytes;

/* Results of one direction (read, write, trim), or of the fsyncs. */
struct direction {
	double requests, bytes, runtime_ms;
};

/* Sums over all jobs. */
struct total {
	double requests, bytes;
	double runtime_ms; /* sum over groups: groups run one after the other, the jobs of a group at once */
	double group_ms;
	double group;
};

static int add_file(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)path;
	(void)place;
	/* a file without blocks was created or truncated to a size, but not laid out */
	if (kind == FTW_F && status->st_blocks > 0)
		laid_out_bytes += (uint64_t)status->st_size;
	return 0;
}

static uint64_t bytes_in(const char *directory)
{
	laid_out_bytes = 0;
	if (nftw(directory, add_file, WALK_FILES, FTW_PHYS | FTW_MOUNT) != 0)
		fail_errno("cannot be listed", directory);
	return laid_out_bytes;
}

/* Runs fio with the options BEFORE, the user's options, and the output options. results: file for fio's JSON. */
static void run_fio(char **options, int count, const char *const *before, const char *results,
		    const char *job)
{
	const char *argv[OPTIONS_MAX + 8];
	struct program_output output = { .with_stderr = true, .may_fail = true };
	char results_option[4096];
	int n = 0;

	argv[n++] = "fio";
	while (*before != NULL)
		argv[n++] = *before++;
	for (int i = 0; i < count; i++)
		argv[n++] = options[i];
	/* last, so that these override the user's: the results are read from this file */
	snprintf(results_option, sizeof(results_option), "--output=%s", results);
	argv[n++] = results_option;
	argv[n++] = "--output-format=json";
	argv[n] = NULL;
	program_run(argv, -1, &output);
	if (output.exit_status != 0)
		fio_failed(&output, job);
	fputs(output.first, stdout);
	fflush(stdout);
}

static void lay_out(char **options, int count, const char *directory)
{
	/* in the global section: create_only applies to every job after it */
	static const char *const before[] = { "--name=global", "--create_only=1", NULL };
	uint64_t old_bytes = bytes_in(directory), bytes;
	int64_t start_ns, end_ns;

	phase_announce("layout", now_ns());
	start_ns = phase_begin();
	run_fio(options, count, before, "/dev/null", "layout");
	end_ns = now_ns();
	bytes = bytes_in(directory);
	if (bytes <= old_bytes)
		return;
	phase_done("layout", start_ns, end_ns, 0, bytes - old_bytes);
	printf("layout: %" PRIu64 " bytes in %.3f s\n", bytes - old_bytes,
	       (double)(end_ns - start_ns) / 1e9);
	fflush(stdout);
}

/* Parses fio's JSON; fio may have printed warnings before it. */
static json_t *read_json(void)
{
	FILE *in = fopen(json_path, "re");
	char *text, *object;
	json_error_t error;
	json_t *whole;
	size_t bytes;

	if (in == NULL)
		fail_errno("cannot be read", json_path);
	text = must_alloc(malloc(JSON_BYTES_MAX));
	bytes = fread(text, 1, JSON_BYTES_MAX, in);
	if (ferror(in))
		fail_errno("cannot be read", json_path);
	fclose(in);
	object = memchr(text, '{', bytes);
	if (object == NULL)
		fail(EXIT_RUN_FAILED, "%s: has no jobs; give fio a job (--name=…)", json_path);
	whole = json_loadb(object, bytes - (size_t)(object - text), JSON_DISABLE_EOF_CHECK, &error);
	if (whole == NULL)
		fail(EXIT_RUN_FAILED, "%s: is no JSON (%s); run fio by hand to see its message",
		     json_path, error.text);
	free(text);
	return whole;
}

/* Returns a member of a JSON object as a number; 0: the member is missing or no number. */
static double number_of(json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

/* Copies a string of fio's for other JSON: quotes, backslashes and control characters become '_'. */
static void copy_text(char *text, size_t room, json_t *value)
{
	const char *string = json_string_value(value);

	snprintf(text, room, "%s", string != NULL ? string : "");
	for (char *at = text; *at != '\0'; at++)
		if (*at == '\\' || *at == '"' || (unsigned char)*at < ' ')
			*at = '_';
}

/* Writes a time of fio's, in ns, as microseconds. A time that fio does not report (an option) is "-", never 0. */
static void write_us(char text[VALUE_BYTES], json_t *value)
{
	if (json_is_number(value))
		snprintf(text, VALUE_BYTES, "%.3f", json_number_value(value) / 1e3);
	else
		snprintf(text, VALUE_BYTES, "\"-\"");
}

static void report_direction(const char *job, const char *name, const struct direction *figures,
			     json_t *times, bool alone)
{
	json_t *percentiles = json_object_get(times, "percentile");
	char mean[VALUE_BYTES], p50[VALUE_BYTES], p99[VALUE_BYTES], most[VALUE_BYTES];
	double seconds = figures->runtime_ms / 1e3;
	double per_s = seconds > 0 ? figures->requests / seconds : 0;
	double mb_per_s = seconds > 0 ? figures->bytes / 1e6 / seconds : 0;

	write_us(mean, json_object_get(times, "mean"));
	write_us(p50, json_object_get(percentiles, "50.000000"));
	write_us(p99, json_object_get(percentiles, "99.000000"));
	write_us(most, json_object_get(times, "max"));
	results_row(
		"fio",
		"\"job\":\"%s\",\"direction\":\"%s\",\"requests\":%.0f,\"bytes\":%.0f,\"runtime_s\":%.3f,"
		"\"requests_per_s\":%.6g,\"MB_per_s\":%.6g,\"mean_us\":%s,\"p50_us\":%s,\"p99_us\":%s,"
		"\"max_us\":%s",
		job, name, figures->requests, figures->bytes, seconds, per_s, mb_per_s, mean, p50,
		p99, most);
	printf("%s %s: %.0f in %.3f s, %.6g a second, %.6g MB/s\n", job, name, figures->requests,
	       seconds, per_s, mb_per_s);
	if (!alone)
		return;
	if (strcmp(name, "fsync") == 0)
		results_row("", "\"fio_fsync_p50_us\":%s,\"fio_fsync_p99_us\":%s", p50, p99);
	else
		results_row("",
			    "\"fio_%s_requests_per_s\":%.6g,\"fio_%s_MB_per_s\":%.6g,"
			    "\"fio_%s_p50_us\":%s,\"fio_%s_p99_us\":%s",
			    name, per_s, name, mb_per_s, name, p50, name, p99);
}

/* Writes the results of a job, or of the jobs of a group with group_reporting. */
static void report_job(json_t *job, bool alone, struct total *total)
{
	static const char *const names[] = { "read", "write", "trim" };
	json_t *sync = json_object_get(job, "sync");
	double group = number_of(job, "groupid"), longest_ms = 0;
	struct direction figures;
	char name[64] = "";

	copy_text(name, sizeof(name), json_object_get(job, "jobname"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		json_t *results = json_object_get(job, names[i]);

		figures = (struct direction){ number_of(results, "total_ios"),
					      number_of(results, "io_bytes"),
					      number_of(results, "runtime") };
		if (figures.requests <= 0)
			continue;
		total->requests += figures.requests;
		total->bytes += figures.bytes;
		if (figures.runtime_ms > longest_ms)
			longest_ms = figures.runtime_ms;
		report_direction(name, names[i], &figures, json_object_get(results, "clat_ns"),
				 alone);
	}
	figures = (struct direction){ number_of(sync, "total_ios"), 0, longest_ms };
	if (figures.requests > 0)
		report_direction(name, "fsync", &figures, json_object_get(sync, "lat_ns"), alone);
	if (group != total->group) {
		total->runtime_ms += total->group_ms;
		total->group_ms = 0;
		total->group = group;
	}
	if (longest_ms > total->group_ms)
		total->group_ms = longest_ms;
}

static struct total report(void)
{
	struct total total = { 0 };
	json_t *whole = read_json(), *jobs = json_object_get(whole, "jobs");
	size_t count = json_array_size(jobs);
	char version[VALUE_BYTES];

	if (count == 0)
		fail(EXIT_RUN_FAILED, "%s: has no jobs; give fio a job (--name=…)", json_path);
	copy_text(version, sizeof(version), json_object_get(whole, "fio version"));
	if (version[0] != '\0')
		results_row("", "\"fio_version\":\"%s\"", version);
	for (size_t i = 0; i < count; i++)
		report_job(json_array_get(jobs, i), count == 1, &total);
	total.runtime_ms += total.group_ms;
	json_decref(whole);
	return total;
}

static void measure(char **options, int count)
{
	static const char *const before[] = { NULL };
	unsigned long threads = number_in_environment("SEEKMETER_THREADS", 1, 1, THREADS_MAX);
	int64_t begin_ns, start_ns, end_ns;
	struct total total;

	phase_announce("measured", now_ns());
	begin_ns = phase_begin();
	own_cpu_begin();
	run_fio(options, count, before, json_path, "measured");
	end_ns = now_ns();
	own_cpu_end(threads);
	total = report();
	start_ns = end_ns - (int64_t)(total.runtime_ms * 1e6);
	if (start_ns < begin_ns)
		start_ns = begin_ns;
	/* alone: fio's preparation, however long, moves no data between the cuts */
	phase_done_alone("measured", start_ns, end_ns, (uint64_t)total.requests,
			 (uint64_t)total.bytes);
	own_cpu_report();
}

int main(int argc, char **argv)
{
	const char *directory = getenv("SEEKMETER_DIR");

	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--output=", strlen("--output=")) == 0)
			json_path = argv[i] + strlen("--output=");
	if (json_path == NULL || argc > OPTIONS_MAX)
		fail(EXIT_WRONG_WORDS,
		     "fio_phases: give --output=FILE and fio's options, %d at most",
		     OPTIONS_MAX - 1);
	phases_open();
	results_open();
	lay_out(argv + 1, argc - 1, directory != NULL && directory[0] != '\0' ? directory : ".");
	measure(argv + 1, argc - 1);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
