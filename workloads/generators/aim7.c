// SPDX-License-Identifier: BSD-2-Clause
/*
 * aim7: jobs per minute by the number of tasks (processes) that run at once. Each task does one set of jobs:
 * arithmetic, memory, processes, pipes, sockets, files.
 *
 *   aim7 -D DIR -m MIX [-n TASKS] [-N TASKS] [-l SECONDS] [-r SECONDS] [-s SEED]
 *
 * MIX is a file with a job and its units of work on each line (datasets/aim7-shared.mix). A step of the ramp starts N
 * tasks; each does all jobs once, in random order. The step's rate is N times the jobs, divided by the time from
 * the first task's start to the last task's end.
 *
 * N doubles from -n until the rate was below the best rate in two steps (the peak has passed), or N would exceed -N, or
 * the next step might end after -l. Then numbers of tasks halfway between the best N and its neighbours are tried,
 * twice. A step shorter than -r is repeated, with the tasks in other orders, until its rounds together took that long.
 * Each round is a phase ("8 tasks"); it leaves out making the tasks' directories, and checking and removing them.
 *
 * The method is that of the benchmark of bryant2002 (docs/SOURCES.md, aim7); no code of it is used.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "aim7/jobs.h"
#include "aim7/tasks.h"
#include "common/files/contents.h"
#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/stats/numbers.h"
#include "common/session/options.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"

#define UNITS_MAX   100000
#define STEPS_MAX   40
#define REFINEMENTS 2
#define TOP	    "aim7" /* the directory that is made */

struct settings {
	const char *dir;
	const char *mix;
	uint64_t tasks_min;
	uint64_t tasks_max;
	uint64_t seconds;
	uint64_t min_s;
	uint64_t seed;
};

static struct mix mix;
static int top_fd;

static const struct job *find_job(const char *name)
{
	static const struct job *const lists[] = { cpu_jobs, process_jobs, disk_jobs };

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct job *job = lists[i]; job->name != NULL; job++)
			if (strcmp(job->name, name) == 0)
				return job;
	return NULL;
}

static void read_mix(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[256];

	if (file == NULL)
		fail_errno("cannot open the mix (-m)", path);
	while (fgets(line, sizeof(line), file) != NULL) {
		char name[64];
		unsigned int units;

		if (line[0] == '#' || line[0] == '\n')
			continue;
		if (sscanf(line, "%63s %u", name, &units) != 2 || units < 1 || units > UNITS_MAX ||
		    find_job(name) == NULL)
			fail(EXIT_WRONG_WORDS,
			     "%s: '%.*s' is not a line of a mix; give a job of aim7 --jobs and its units of work",
			     path, (int)strcspn(line, "\n"), line);
		if (mix.n == JOBS_MAX)
			fail(EXIT_WRONG_WORDS, "%s: has more than %d jobs", path, JOBS_MAX);
		mix.jobs[mix.n++] = (struct entry){ find_job(name), units };
	}
	if (ferror(file))
		fail_errno("cannot read the mix (-m)", path);
	fclose(file);
	if (mix.n == 0)
		fail(EXIT_WRONG_WORDS, "%s: has no jobs", path);
}

/* The steps so far, sorted by their number of tasks. */
struct ramp {
	struct step steps[STEPS_MAX];
	unsigned int n;
	unsigned int best; /* index of the step with the highest rate */
	int64_t until_ns;
};

/* Runs one step: rounds until they took min_s seconds together, or until the next round might end after until_ns. */
static struct step run_rounds(unsigned int tasks, const struct settings *set, int64_t until_ns)
{
	struct step step = run_step(&mix, top_fd, tasks, set->seed);
	unsigned int jobs;

	while (step.seconds < (double)set->min_s &&
	       now_ns() + (int64_t)(step.seconds / step.rounds * 1e9) < until_ns) {
		struct step round = run_step(&mix, top_fd, tasks, set->seed + step.rounds);

		step.own_cpu_pct =
			(step.own_cpu_pct * step.seconds + round.own_cpu_pct * round.seconds) /
			(step.seconds + round.seconds);
		step.seconds += round.seconds;
		step.rounds++;
	}
	jobs = tasks * mix.n * step.rounds;
	step.jobs_per_min = 60.0 * jobs / (step.seconds > 0 ? step.seconds : 1e-9);
	results_row("aim7 steps",
		    "\"tasks\":%u,\"jobs\":%u,\"seconds\":%.3f,\"jobs_per_min\":%.1f,"
		    "\"jobs_per_min_per_task\":%.1f,\"own_user_cpu_pct\":%.1f",
		    tasks, jobs, step.seconds, step.jobs_per_min, step.jobs_per_min / tasks,
		    step.own_cpu_pct);
	printf("%u tasks: %u jobs in %.3f s, %.0f jobs/min\n", tasks, jobs, step.seconds,
	       step.jobs_per_min);
	fflush(stdout);
	return step;
}

/*
 * Runs a step and inserts it into the ramp. False: not run, as it might end after until_ns; a step can't be cut short.
 */
static bool try_step(struct ramp *ramp, unsigned int tasks, const struct settings *set)
{
	struct step step;
	unsigned int at = ramp->n;

	if (ramp->n > 0) {
		const struct step *last = &ramp->steps[ramp->n - 1];
		double seconds = last->seconds / last->rounds * tasks / last->tasks;

		if (ramp->n == STEPS_MAX || now_ns() + (int64_t)(seconds * 1e9) > ramp->until_ns)
			return false;
	}
	step = run_rounds(tasks, set, ramp->until_ns);
	for (; at > 0 && ramp->steps[at - 1].tasks > tasks; at--)
		ramp->steps[at] = ramp->steps[at - 1];
	ramp->steps[at] = step;
	ramp->n++;
	ramp->best = 0;
	for (unsigned int i = 1; i < ramp->n; i++)
		if (ramp->steps[i].jobs_per_min > ramp->steps[ramp->best].jobs_per_min)
			ramp->best = i;
	return true;
}

static void run_ramp(struct ramp *ramp, const struct settings *set)
{
	unsigned int tasks = set->tasks_min;

	while (tasks <= set->tasks_max && try_step(ramp, tasks, set) && ramp->n - ramp->best <= 2)
		tasks *= 2;
	for (int i = 0; i < REFINEMENTS; i++) {
		unsigned int best = ramp->steps[ramp->best].tasks;
		unsigned int below = ramp->best > 0 ? ramp->steps[ramp->best - 1].tasks : best;
		unsigned int above = ramp->best + 1 < ramp->n ? ramp->steps[ramp->best + 1].tasks
							      : best;

		if (best - below > 1 && !try_step(ramp, below + (best - below) / 2, set))
			return;
		if (above - best > 1 && !try_step(ramp, best + (above - best) / 2, set))
			return;
	}
}

static void report(const struct ramp *ramp)
{
	const struct step *best = &ramp->steps[ramp->best];
	bool passed = ramp->best + 1 < ramp->n;

	printf("\n%8s %10s %14s\n", "tasks", "seconds", "jobs/min");
	for (unsigned int i = 0; i < ramp->n; i++)
		printf("%8u %10.3f %14.1f%s\n", ramp->steps[i].tasks, ramp->steps[i].seconds,
		       ramp->steps[i].jobs_per_min, i == ramp->best ? "  peak" : "");
	if (!passed)
		printf("the peak may be at more tasks: give more time (-l) or tasks (-N)\n");
	printf("verified: every task's file is as it was written\n");
	results_row("",
		    "\"aim7_peak_jobs_per_min\":%.1f,\"aim7_peak_tasks\":%u,"
		    "\"aim7_peak_passed\":\"%s\",\"aim7_kinds_of_jobs\":%u",
		    best->jobs_per_min, best->tasks, passed ? "yes" : "no", mix.n);
	own_cpu_report();
}

static void list_jobs(void)
{
	static const struct job *const lists[] = { cpu_jobs, process_jobs, disk_jobs };

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct job *job = lists[i]; job->name != NULL; job++)
			printf("%s\n", job->name);
}

static void usage(void)
{
	printf("usage: aim7 [-D DIR] -m MIX [-n TASKS] [-N TASKS] [-l SECONDS] [-r SECONDS] [-s SEED]\n"
	       "  -D DIR      directory in which " TOP " is made ($SEEKMETER_DIR)\n"
	       "  -m MIX      a file; each line has a job and its units of work\n"
	       "  -n, -N      fewest and most tasks (1, 512)\n"
	       "  -l SECONDS  start no step that might end later (120)\n"
	       "  -r SECONDS  repeat a step until its rounds took this long together (0)\n"
	       "  -s SEED     the same seed gives the same orders ($SEEKMETER_SEED, else 1)\n"
	       "  --jobs      list all kinds of jobs\n");
}

static struct settings settings_of(int argc, char **argv)
{
	struct settings set = { .tasks_min = 1, .tasks_max = 512, .seconds = 120 };
	const struct choice choices[] = {
		{ .letter = 'm', .text = &set.mix },
		{ .letter = 'n', .number = &set.tasks_min, .min = 1, .max = TASKS_MAX },
		{ .letter = 'N', .number = &set.tasks_max, .min = 1, .max = TASKS_MAX },
		{ .letter = 'l', .number = &set.seconds, .min = 1, .max = 1000000 },
		{ .letter = 'r', .number = &set.min_s, .max = 1000 },
		{ .name = "jobs", .act = list_jobs },
	};
	const struct generator generator = { "aim7", usage, &set.dir, &set.seed };

	parse_options(&generator, CHOICES(choices), argc, argv);
	if (set.mix == NULL)
		fail(EXIT_WRONG_WORDS, "aim7: no mix of jobs; give one with -m MIX");
	if (set.tasks_min > set.tasks_max)
		fail(EXIT_WRONG_WORDS, "aim7: -n %" PRIu64 " is more than -N %" PRIu64,
		     set.tasks_min, set.tasks_max);
	return set;
}

int main(int argc, char **argv)
{
	struct ramp ramp = { .n = 0 };
	struct settings set;
	int dir_fd;

	if (argc == 2 && strcmp(argv[1], EXEC_OPTION) == 0)
		return 0;
	fail_as_one();
	set = settings_of(argc, argv);
	read_mix(set.mix);
	phases_open();
	results_open();
	contents_init();
	dir_fd = open(set.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		fail_errno("cannot open the directory", set.dir);
	if (mkdirat(dir_fd, TOP, 0755) != 0)
		fail_errno("cannot make the directory", TOP);
	top_fd = openat(dir_fd, TOP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top_fd < 0)
		fail_errno("cannot open the directory", TOP);
	printf("aim7 in %s: %u kinds of jobs a task, %" PRIu64 " to %" PRIu64 " tasks, %" PRIu64
	       " s, seed %" PRIu64 "\n",
	       set.dir, mix.n, set.tasks_min, set.tasks_max, set.seconds, set.seed);
	ramp.until_ns = now_ns() + (int64_t)set.seconds * 1000000000;
	run_ramp(&ramp, &set);
	if (unlinkat(dir_fd, TOP, AT_REMOVEDIR) != 0)
		fail_errno("cannot remove", TOP);
	report(&ramp);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
