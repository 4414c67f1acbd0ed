// SPDX-License-Identifier: BSD-2-Clause
/*
 * fio_phases: runs fio(1) in two phases, "layout" (it creates the files that the jobs read) and "measured", and passes
 * on fio's results.
 *
 *   fio_phases --output=FILE [OPTION]...
 *
 * All options are fio's. fio runs twice with them: first with create_only added, then as given; FILE gets the JSON of the
 * second run. Files that are only written need no layout, so such jobs have no layout phase. fio reports how long it
 * measured, not when: the measured phase is taken to end when fio ends, some hundredths of a second late.
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

#define WORDS_MAX      256
#define THREADS_MAX    100000
#define JSON_BYTES_MAX (64 << 20)
#define WALK_FILES     16
#define VALUE_BYTES    32 /* of a figure, written out */

static const char *json_path;
static uint64_t laid_out_bytes;

/* What a direction's requests, or fsyncs, came to. */
struct direction {
	double requests, bytes, runtime_ms;
};

/* All of a job file's together. */
struct total {
	double requests, bytes;
	double runtime_ms; /* of groups, which are one after the other; the jobs of one are beside each other */
	double group_ms;
	double group;
};

static int add_file(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)path;
	(void)place;
	/* a file that is only named, or only has its length set, is not laid out */
	if (kind == FTW_F && status->st_blocks > 0)
		laid_out_bytes += (uint64_t)status->st_size;
	return 0;
}

static uint64_t bytes_in(const char *directory)
{
	laid_out_bytes = 0;
	if (nftw(directory, add_file, WALK_FILES, FTW_PHYS | FTW_MOUNT) != 0)
		fail_errno("cannot be looked through", directory);
	return laid_out_bytes;
}

/* Runs fio with the user's options, and ours before and behind them. results: the file for fio's JSON. */
static void run_fio(char **words, int count, const char *const *before, const char *results,
		    const char *job)
{
	const char *argv[WORDS_MAX + 8];
	struct program_output output = { .with_stderr = true, .may_fail = true };
	char results_option[4096];
	int n = 0;

	argv[n++] = "fio";
	while (*before != NULL)
		argv[n++] = *before++;
	for (int i = 0; i < count; i++)
		argv[n++] = words[i];
	/* last, so that they override the user's: the results are read from there */
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

static void lay_out(char **words, int count, const char *directory)
{
	/* in the global section, so that it holds for every job behind it */
	static const char *const before[] = { "--name=global", "--create_only=1", NULL };
	uint64_t there = bytes_in(directory), bytes;
	int64_t start_ns, end_ns;

	phase_announce("layout", now_ns());
	start_ns = phase_begin();
	run_fio(words, count, before, "/dev/null", "layout");
	end_ns = now_ns();
	bytes = bytes_in(directory);
	if (bytes <= there)
		return;
	phase_done("layout", start_ns, end_ns, 0, bytes - there);
	printf("layout: %" PRIu64 " bytes in %.3f s\n", bytes - there,
	       (double)(end_ns - start_ns) / 1e9);
	fflush(stdout);
}

/* What fio wrote, behind what it may have complained of before. */
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
		fail(EXIT_RUN_FAILED, "%s: is no JSON (%s); run fio by hand to see what it says",
		     json_path, error.text);
	free(text);
	return whole;
}

/* 0: it is not there, or no number. */
static double number_of(json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

/* A string of fio's, as it can stand in other JSON: quotes, backslashes and control characters become '_'. */
static void copy_text(char *text, size_t room, json_t *value)
{
	const char *string = json_string_value(value);

	snprintf(text, room, "%s", string != NULL ? string : "");
	for (char *at = text; *at != '\0'; at++)
		if (*at == '\\' || *at == '"' || (unsigned char)*at < ' ')
			*at = '_';
}

/* A time of fio's, in ns, as microseconds; what fio does not say (it can be told not to) is "-", never 0. */
static void write_us(char text[VALUE_BYTES], json_t *value)
{
	if (json_is_number(value))
		snprintf(text, VALUE_BYTES, "%.3f", json_number_value(value) / 1e3);
	else
		snprintf(text, VALUE_BYTES, "\"-\"");
}

static void report_direction(const char *job, const char *name, const struct direction *did,
			     json_t *times, bool alone)
{
	json_t *percentiles = json_object_get(times, "percentile");
	char mean[VALUE_BYTES], p50[VALUE_BYTES], p99[VALUE_BYTES], most[VALUE_BYTES];
	double seconds = did->runtime_ms / 1e3;
	double per_s = seconds > 0 ? did->requests / seconds : 0;
	double mb_per_s = seconds > 0 ? did->bytes / 1e6 / seconds : 0;

	write_us(mean, json_object_get(times, "mean"));
	write_us(p50, json_object_get(percentiles, "50.000000"));
	write_us(p99, json_object_get(percentiles, "99.000000"));
	write_us(most, json_object_get(times, "max"));
	results_row(
		"fio",
		"\"job\":\"%s\",\"direction\":\"%s\",\"requests\":%.0f,\"bytes\":%.0f,\"runtime_s\":%.3f,"
		"\"requests_per_s\":%.6g,\"MB_per_s\":%.6g,\"mean_us\":%s,\"p50_us\":%s,\"p99_us\":%s,"
		"\"max_us\":%s",
		job, name, did->requests, did->bytes, seconds, per_s, mb_per_s, mean, p50, p99,
		most);
	printf("%s %s: %.0f in %.3f s, %.6g a second, %.6g MB/s\n", job, name, did->requests,
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

/* A job, or the jobs that fio reports as one (group_reporting). */
static void report_job(json_t *job, bool alone, struct total *total)
{
	static const char *const names[] = { "read", "write", "trim" };
	json_t *sync = json_object_get(job, "sync");
	double group = number_of(job, "groupid"), longest_ms = 0;
	struct direction did;
	char name[64] = "";

	copy_text(name, sizeof(name), json_object_get(job, "jobname"));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		json_t *facts = json_object_get(job, names[i]);

		did = (struct direction){ number_of(facts, "total_ios"),
					  number_of(facts, "io_bytes"),
					  number_of(facts, "runtime") };
		if (did.requests <= 0)
			continue;
		total->requests += did.requests;
		total->bytes += did.bytes;
		if (did.runtime_ms > longest_ms)
			longest_ms = did.runtime_ms;
		report_direction(name, names[i], &did, json_object_get(facts, "clat_ns"), alone);
	}
	did = (struct direction){ number_of(sync, "total_ios"), 0, longest_ms };
	if (did.requests > 0)
		report_direction(name, "fsync", &did, json_object_get(sync, "lat_ns"), alone);
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

static void measure(char **words, int count)
{
	static const char *const before[] = { NULL };
	unsigned long threads = number_in_environment("SEEKMETER_THREADS", 1, 1, THREADS_MAX);
	int64_t begin_ns, start_ns, end_ns;
	struct total total;

	phase_announce("measured", now_ns());
	begin_ns = phase_begin();
	own_cpu_begin();
	run_fio(words, count, before, json_path, "measured");
	end_ns = now_ns();
	own_cpu_end(threads);
	total = report();
	start_ns = end_ns - (int64_t)(total.runtime_ms * 1e6);
	if (start_ns < begin_ns)
		start_ns = begin_ns;
	/* fio reads and writes nothing else, however long it prepares itself */
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
	if (json_path == NULL || argc > WORDS_MAX)
		fail(EXIT_WRONG_WORDS,
		     "fio_phases: say fio_phases --output=FILE and fio's words, %d at most",
		     WORDS_MAX - 1);
	phases_open();
	results_open();
	lay_out(argv + 1, argc - 1, directory != NULL && directory[0] != '\0' ? directory : ".");
	measure(argv + 1, argc - 1);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
