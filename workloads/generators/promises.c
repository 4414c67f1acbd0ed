// SPDX-License-Identifier: BSD-2-Clause
/*
 * promises: threads write, sync, rename and remove files of their own, and log what the kernel promised: for power cuts.
 *
 *   promises -D DIR -l LOG [-t THREADS] [-n OPERATIONS] [-s SEED]
 *   promises -D DIR --check [--remove] [-c CUT_NS] < LOG
 *
 * OPERATIONS is the total of all threads. By chance, each is: a new file; the next version of a file, over the old one or
 * behind it; a new file renamed over an old one; a rename, also into another directory; a removal. Most versions are
 * synced (fsync or fdatasync), half of the changes of names too (fsync of the directory). What a sync returned 0 for is
 * a promise. LOG, outside the disk under test, has it the moment it is told (promises/log.h).
 *
 * --check compares a tree, after a power cut and log replay, with the log: every synced version is there or a newer one,
 * whole; a rename happened or not; what was removed and synced stays removed. --remove removes the tree then: a
 * directory that cannot be removed is damage. It prints one JSON object. Exit status 1: a promise is broken.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/session/crew.h"
#include "common/session/fail.h"
#include "common/session/options.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"
#include "common/session/results.h"
#include "common/stats/numbers.h"
#include "promises/check.h"
#include "promises/log.h"
#include "promises/work.h"

#define OPERATIONS_MAX 2000000 /* the log of these fits into the session's directory for results */
#define PHASE	       "promise"

struct settings {
	const char *dir;
	const char *log;
	uint64_t threads;
	uint64_t operations;
	uint64_t seed;
	uint64_t cut_ns;
	bool check;
	bool remove;
};

static void work(void *own, int phase, _Atomic uint64_t *done)
{
	struct promiser *me = own;

	(void)phase;
	for (uint64_t i = 0; i < me->operations; i++, crew_did(done, 1))
		promise_something(me);
}

static struct promiser *make_promisers(const struct settings *set, int dir_fd)
{
	size_t bytes = set->threads * sizeof(struct promiser);
	struct promiser *promisers = must_alloc(aligned_alloc(_Alignof(struct promiser), bytes));
	struct rng seeds = { .state = set->seed };

	memset(promisers, 0, bytes);
	for (uint32_t i = 0; i < set->threads; i++) {
		promisers[i].thread = i;
		promisers[i].seed = set->seed;
		promisers[i].rng.state = rng_next(&seeds);
		promisers[i].operations =
			set->operations / set->threads + (i < set->operations % set->threads);
	}
	make_directories(dir_fd, set->dir, promisers, set->threads);
	return promisers;
}

static void promise(const struct settings *set, int dir_fd)
{
	struct promiser *promisers;
	struct crew_span span;
	struct crew *crew;
	uint64_t bytes = 0, syncs = 0;
	double seconds;

	phases_open();
	results_open();
	log_open(set->log);
	printf("promises in %s: %" PRIu64 " threads, %" PRIu64 " operations, seed %" PRIu64 "\n",
	       set->dir, set->threads, set->operations, set->seed);
	fflush(stdout);
	promisers = make_promisers(set, dir_fd);
	log_begin(set->threads, set->seed);
	crew = crew_start(set->threads, work, promisers, sizeof(*promisers));
	phase_announce(PHASE, now_ns());
	own_cpu_begin();
	span = crew_phase(crew, 0, PHASE);
	own_cpu_end(set->threads);
	crew_end(crew);
	for (uint64_t i = 0; i < set->threads; i++) {
		bytes += promisers[i].bytes;
		syncs += promisers[i].syncs;
	}
	phase_done(PHASE, span.start_ns, span.end_ns, span.done, bytes);
	seconds = (double)(span.end_ns - span.start_ns) / 1e9;
	printf("[1/1] " PHASE ": %" PRIu64 " in %.3f s, %" PRIu64 " syncs\n", span.done, seconds,
	       syncs);
	results_row("", "\"syncs_per_s\":%.2f", seconds > 0 ? (double)syncs / seconds : 0.0);
	own_cpu_report();
	free(promisers);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
}

static void usage(void)
{
	printf("usage: promises -D DIR -l LOG [-t THREADS] [-n OPERATIONS] [-s SEED]\n"
	       "       promises -D DIR --check [--remove] [-c CUT_NS] < LOG\n"
	       "  -D DIR         directory in which " TOP " is made ($SEEKMETER_DIR)\n"
	       "  -l LOG         a new file, on another disk: what was promised\n"
	       "  -t THREADS     threads ($SEEKMETER_THREADS, else 8; 64 at most)\n"
	       "  -n OPERATIONS  of all threads together (2000)\n"
	       "  -s SEED        the same seed gives the same operations ($SEEKMETER_SEED, else 1)\n"
	       "  --check        compare DIR with the log on standard input, after a power cut\n"
	       "  --remove       remove the tree after the check: each directory must allow it\n"
	       "  -c CUT_NS      when the power was cut, CLOCK_MONOTONIC: later promises are counted\n");
}

static struct settings settings_of(int argc, char **argv)
{
	struct settings set = { .operations = 2000, .cut_ns = INT64_MAX };
	const struct choice choices[] = {
		{ .letter = 't', .number = &set.threads, .min = 1, .max = THREADS_MAX },
		{ .letter = 'n', .number = &set.operations, .max = OPERATIONS_MAX },
		{ .letter = 'c', .number = &set.cut_ns, .max = INT64_MAX },
		{ .letter = 'l', .text = &set.log },
		{ .name = "check", .flag = &set.check },
		{ .name = "remove", .flag = &set.remove },
	};
	const struct generator generator = { "promises", usage, &set.dir, &set.seed };

	set.threads = number_in_environment("SEEKMETER_THREADS", 8, 1, THREADS_MAX);
	parse_options(&generator, CHOICES(choices), argc, argv);
	if (set.check == (set.log != NULL))
		fail(EXIT_WRONG_WORDS,
		     "promises: give the log by -l LOG, or with --check as input");
	return set;
}

int main(int argc, char **argv)
{
	struct settings set = settings_of(argc, argv);
	int dir_fd = open(set.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct ledger *ledger;
	bool is_kept;

	if (dir_fd < 0)
		fail_errno("cannot open the directory", set.dir);
	if (!set.check) {
		promise(&set, dir_fd);
		return 0;
	}
	ledger = ledger_read(stdin, (int64_t)set.cut_ns);
	is_kept = check_promises(dir_fd, ledger, set.remove);
	ledger_free(ledger);
	return is_kept ? 0 : EXIT_RUN_FAILED;
}
