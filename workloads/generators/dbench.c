// SPDX-License-Identifier: BSD-2-Clause
/*
 * dbench: runs Debian's dbench(1) (the file server benchmark of gus2011, docs/SOURCES.md) and marks its warm-up, its
 * measured part and its cleanup as phases. dbench's rates become results; its output is passed on.
 *
 *   dbench -D DIR [-t PROCESSES] [-T SECONDS] [-c LOADFILE] [-- OPTION…]
 *
 * dbench (version 4) starts its processes, warms up for a fifth of SECONDS (in whole seconds), measures for
 * SECONDS, and cleans up. It prints a line per second. "execute N sec" comes N seconds after the measured part began,
 * so its start is known to a few milliseconds; "cleanup" comes at its end.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/stats/numbers.h"
#include "common/session/options.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"

#define PROCESSES_MAX 1000
#define SECONDS_MAX   100000
#define OPTIONS_MAX   20
#define SECOND_NS     1000000000
#define TOP	      "clients" /* the directory that dbench makes */

struct settings {
	const char *dir;
	const char *loadfile;
	uint64_t processes;
	uint64_t seconds;
};

/* Times and results parsed from dbench's output so far; a time of 0: not yet reached. */
struct progress {
	bool no_warm_up; /* below 5 s the warm-up rounds to 0 s: dbench measures from the release on */
	int64_t released_ns; /* dbench has started its clients */
	int64_t measured_ns; /* start of the measured part */
	int64_t cleanup_ns;
	uint64_t operations;
	double mb_per_s;
	double worst_ms;
	bool finished;
	char error[256]; /* the first error line */
};

static pid_t child;

/* dbench's clients outlive a killed dbench, so the signal handler kills their process group. */
static void on_signal(int signal_number)
{
	signal(signal_number, SIG_DFL);
	if (child > 0)
		kill(-child, SIGKILL);
	raise(signal_number);
}

static void end_group(void)
{
	if (child > 0)
		kill(-child, SIGKILL);
}

static int start(const struct settings *set, const struct passed_on *options)
{
	char *argv[OPTIONS_MAX + 10];
	char seconds[32];
	char processes[32];
	int ends[2];
	int n = 0;

	snprintf(seconds, sizeof(seconds), "%" PRIu64, set->seconds);
	snprintf(processes, sizeof(processes), "%" PRIu64, set->processes);
	argv[n++] = "dbench";
	argv[n++] = "-D";
	argv[n++] = (char *)set->dir;
	argv[n++] = "-t";
	argv[n++] = seconds;
	if (set->loadfile != NULL) {
		argv[n++] = "-c";
		argv[n++] = (char *)set->loadfile;
	}
	for (int i = 0; i < options->count; i++)
		argv[n++] = options->argv[i];
	argv[n++] = processes;
	argv[n] = NULL;
	if (pipe2(ends, O_CLOEXEC) != 0)
		fail_errno("cannot be made", "a pipe");
	child = fork();
	if (child < 0)
		fail_errno("cannot be started", "dbench");
	if (child == 0) {
		if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
		    dup2(ends[1], STDOUT_FILENO) < 0 || dup2(ends[1], STDERR_FILENO) < 0)
			fail_errno("cannot be started", "dbench");
		execvp("dbench", argv);
		fail_errno("cannot be started (is the package dbench installed?)", "dbench");
	}
	setpgid(child, child); /* parent and child both call this, as either may run first */
	close(ends[1]);
	return ends[0];
}

/* Parses one line of dbench's output, which arrived at at_ns. */
static void parse_line(struct progress *progress, const char *line, int64_t at_ns)
{
	double seconds;
	double mb_per_s;
	double mean;
	double worst;
	char name[32];
	uint64_t count;
	int clients;
	int lines;

	if (strncmp(line, "releasing clients", 17) == 0) {
		progress->released_ns = phase_cut(0);
		phase_announce(progress->no_warm_up ? "measured" : "warm-up", at_ns);
	} else if (sscanf(line, "%d %d %lf MB/sec execute %lf sec", &clients, &lines, &mb_per_s,
			  &seconds) == 4) {
		if (progress->measured_ns == 0) {
			progress->measured_ns = progress->no_warm_up
							? progress->released_ns
							: at_ns - (int64_t)(seconds * SECOND_NS);
			if (!progress->no_warm_up)
				phase_announce("measured", progress->measured_ns);
		}
	} else if (sscanf(line, "%d cleanup %lf sec", &clients, &seconds) == 2) {
		if (progress->cleanup_ns == 0) {
			progress->cleanup_ns = phase_cut(0);
			phase_announce("cleanup", at_ns);
		}
	} else if (sscanf(line, "Throughput %lf MB/sec", &progress->mb_per_s) == 1) {
		const char *latency = strstr(line, "max_latency=");

		progress->finished = latency != NULL &&
				     sscanf(latency, "max_latency=%lf", &progress->worst_ms) == 1;
	} else if (progress->cleanup_ns != 0 && sscanf(line, " %31[A-Za-z] %" SCNu64 " %lf %lf",
						       name, &count, &mean, &worst) == 4) {
		progress->operations += count;
		results_row("dbench operations",
			    "\"operation\":\"%s\",\"count\":%" PRIu64
			    ",\"mean_ms\":%.3f,\"longest_ms\":%.3f",
			    name, count, mean, worst);
	} else if (progress->error[0] == '\0' &&
		   ((line[0] == '[' && strstr(line, "failed") != NULL) ||
		    strstr(line, "expected to write") != NULL || strstr(line, "Child failed") ||
		    strncmp(line, "dbench: ", 8) == 0 || strncmp(line, "seekmeter: ", 11) == 0)) {
		snprintf(progress->error, sizeof(progress->error), "%.*s", (int)strcspn(line, "\n"),
			 line);
	}
}

static void report(const struct settings *set, const struct progress *progress, int64_t end_ns)
{
	double seconds = (double)(progress->cleanup_ns - progress->measured_ns) / 1e9;

	phase_done("warm-up", progress->released_ns, progress->measured_ns, 0, 0);
	/* bytes: computed from the rate that dbench reports */
	phase_done("measured", progress->measured_ns, progress->cleanup_ns, progress->operations,
		   (uint64_t)(progress->mb_per_s * 1e6 * seconds));
	phase_done("cleanup", progress->cleanup_ns, end_ns, 0, 0);
	results_row("",
		    "\"dbench_processes\":%" PRIu64
		    ",\"dbench_MB_per_s\":%.6g,\"dbench_max_latency_ms\":%.3f",
		    set->processes, progress->mb_per_s, progress->worst_ms);
}

static int run(const struct settings *set, const struct passed_on *options)
{
	struct progress progress = { .no_warm_up = set->seconds < 5 };
	FILE *lines;
	char *line = NULL;
	size_t room = 0;
	int status;

	own_cpu_begin();
	lines = fdopen(start(set, options), "r");
	if (lines == NULL)
		fail_errno("cannot be read", "dbench");
	while (getline(&line, &room, lines) > 0) {
		parse_line(&progress, line, now_ns());
		fputs(line, stdout);
		fflush(stdout);
		/* the other clients would run on, and keep the pipe open, until their time is over */
		if (strncmp(line, "Child failed", 12) == 0)
			end_group();
	}
	free(line);
	fclose(lines);
	if (waitpid(child, &status, 0) < 0)
		fail_errno("cannot be waited for", "dbench");
	end_group();
	child = 0;
	if (!progress.finished || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail(EXIT_RUN_FAILED, "dbench failed: %s%s",
		     progress.error[0] != '\0' ? progress.error : "the output above has the reason",
		     strstr(progress.error, "No space left") ||
				     strstr(progress.error, "expected to write")
			     ? "; give a larger disk (SIZE=) or fewer processes (THREADS=)"
			     : "");
	if (progress.released_ns == 0 || progress.measured_ns < progress.released_ns ||
	    progress.cleanup_ns < progress.measured_ns)
		fail(EXIT_RUN_FAILED,
		     "dbench: the warm-up did not end in time; give more seconds (-T)");
	own_cpu_end(set->processes);
	report(set, &progress, now_ns());
	own_cpu_report();
	return 0;
}

static void usage(void)
{
	printf("usage: dbench [-D DIR] [-t PROCESSES] [-T SECONDS] [-c LOADFILE] [-- OPTION...]\n"
	       "  -D DIR        directory in which dbench makes " TOP " ($SEEKMETER_DIR)\n"
	       "  -t PROCESSES  number of client processes ($SEEKMETER_THREADS, else 5)\n"
	       "  -T SECONDS    measured time, after a warm-up of a fifth of it (60)\n"
	       "  -c LOADFILE   load file of dbench(1) (the package's)\n"
	       "  OPTION        other options of dbench(1)\n");
}

int main(int argc, char **argv)
{
	struct settings set = { .seconds = 60 };
	struct passed_on others = { 0 };
	const struct choice choices[] = {
		{ .letter = 't', .number = &set.processes, .min = 1, .max = PROCESSES_MAX },
		{ .letter = 'T', .number = &set.seconds, .min = 1, .max = SECONDS_MAX },
		{ .letter = 'c', .text = &set.loadfile },
	};
	const struct generator generator = { "dbench", usage, &set.dir, NULL };

	set.processes = number_in_environment("SEEKMETER_THREADS", 5, 1, PROCESSES_MAX);
	parse_options_before(&others, &generator, CHOICES(choices), argc, argv);
	if (others.count > OPTIONS_MAX)
		fail(EXIT_WRONG_WORDS, "dbench: more than %d options after --", OPTIONS_MAX);
	if (access(set.dir, W_OK) != 0) /* dbench's message would be misleading: missing files */
		fail_errno("cannot be written", set.dir);
	phases_open();
	results_open();
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	signal(SIGHUP, on_signal);
	return run(&set, &others);
}
