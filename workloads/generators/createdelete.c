// SPDX-License-Identifier: BSD-2-Clause
/*
 * createdelete: many threads create, write, rename and delete small files at once, all in one directory or
 * each in its own, as mail and cache servers do: the threads wait for the file system's locks.
 *
 *   createdelete -D DIR [-t THREADS] [-n FILES] [-o OPERATIONS] [-f PERCENT] [--private] [-s SEED]
 *
 * FILES and OPERATIONS are totals of all threads: the work does not depend on the number of threads. All threads start
 * each phase together:
 *   create  FILES files of 1 to 8,192 bytes; PERCENT of them are synced before they are closed (fsync)
 *   mixed   OPERATIONS operations in equal shares by chance: create (and sync) as above, rename, delete
 *   delete  nine of ten of the remaining files, at random
 * A last phase, "verify", reads and compares every remaining file; no other file may exist. A thread works only on the
 * files it made. Its operations depend on the seed, the number of threads and the thread's number, never on the other
 * threads or on the file system. Purpose: lock contention in directories.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files/contents.h"
#include "common/files/directory.h"
#include "common/session/crew.h"
#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/stats/numbers.h"
#include "common/session/options.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"
#include "common/files/small_files.h"
#include "common/files/walk.h"

#define FILES_MAX   100000000
#define KEEP_ONE_IN 10
#define TOP	    "createdelete" /* the directory that is made */

struct settings {
	const char *dir;
	uint64_t threads;
	uint64_t files;
	uint64_t operations;
	uint64_t fsync_pct;
	uint64_t seed;
	bool private;
};

enum phase { PHASE_CREATE, PHASE_MIXED, PHASE_DELETE, PHASE_VERIFY, PHASES };

static const char *const phase_names[PHASES] = { "create", "mixed", "delete", "verify" };
static const char *const operation_names[SMALL_FILE_OPERATIONS] = { "create", "fsync", "rename",
								    "delete" };

struct worker {
	struct small_files files;
	unsigned long to_create; /* the thread's share of FILES; to_mix: of OPERATIONS */
	unsigned long to_mix;
	uint64_t bytes; /* in the present phase */
	struct times times[PHASES][SMALL_FILE_OPERATIONS];
} __attribute__((aligned(128)));

static void mixed_operation(struct worker *me)
{
	uint64_t chosen = rng_below(&me->files.rng, 3);

	if (chosen == 0 || me->files.n_living == 0)
		me->bytes += small_files_create(&me->files);
	else if (chosen == 1)
		small_files_rename(&me->files);
	else
		small_files_delete(&me->files);
}

static void work(void *own, int phase, _Atomic uint64_t *done)
{
	struct worker *me = own;
	uint32_t keep = me->files.n_living / KEEP_ONE_IN;

	me->bytes = 0;
	me->files.times = me->times[phase];
	switch (phase) {
	case PHASE_CREATE:
		for (unsigned long i = 0; i < me->to_create; i++, crew_did(done, 1))
			me->bytes += small_files_create(&me->files);
		break;
	case PHASE_MIXED:
		for (unsigned long i = 0; i < me->to_mix; i++, crew_did(done, 1))
			mixed_operation(me);
		break;
	case PHASE_DELETE:
		for (; me->files.n_living > keep; crew_did(done, 1))
			small_files_delete(&me->files);
		break;
	default:
		for (uint32_t i = 0; i < me->files.n_living; i++, crew_did(done, 1))
			me->bytes += small_files_verify(&me->files, i);
	}
}

static void measure_phase(struct crew *crew, const struct worker *workers, unsigned long threads,
			  enum phase phase)
{
	struct crew_span span;
	uint64_t bytes = 0;
	double seconds;

	phase_announce(phase_names[phase], now_ns());
	own_cpu_begin();
	span = crew_phase(crew, phase, phase_names[phase]);
	if (phase != PHASE_VERIFY)
		own_cpu_end(threads);
	seconds = (double)(span.end_ns - span.start_ns) / 1e9;
	for (unsigned long i = 0; i < threads; i++)
		bytes += workers[i].bytes;
	phase_done(phase_names[phase], span.start_ns, span.end_ns, span.done, bytes);
	printf("[%d/%d] %s: %" PRIu64 " in %.3f s, %.0f a second\n", phase + 1, PHASES,
	       phase_names[phase], span.done, seconds,
	       seconds > 0 ? (double)span.done / seconds : 0.0);
	fflush(stdout);
}

static void print_operation(const char *phase, const char *operation, const struct times *all)
{
	double mean_us = (double)all->total_ns / 1e3 / (double)all->count;
	double longest_us = (double)all->longest_ns / 1e3;

	printf("%-8s %-9s %10" PRIu64 " %12.1f %12.1f\n", phase, operation, all->count, mean_us,
	       longest_us);
	results_row("operations",
		    "\"phase\":\"%s\",\"operation\":\"%s\",\"count\":%" PRIu64
		    ",\"mean_us\":%.1f,\"longest_us\":%.1f",
		    phase, operation, all->count, mean_us, longest_us);
}

static void print_summary(const struct worker *workers, unsigned long threads)
{
	printf("\n%-8s %-9s %10s %12s %12s\n", "phase", "operation", "count", "mean us",
	       "longest us");
	for (int phase = 0; phase < PHASES; phase++) {
		for (int operation = 0; operation < SMALL_FILE_OPERATIONS; operation++) {
			struct times all = { 0 };

			for (unsigned long i = 0; i < threads; i++) {
				const struct times *times = &workers[i].times[phase][operation];

				all.count += times->count;
				all.total_ns += times->total_ns;
				if (times->longest_ns > all.longest_ns)
					all.longest_ns = times->longest_ns;
			}
			if (all.count == 0)
				continue;
			print_operation(phase_names[phase], operation_names[operation], &all);
		}
	}
	printf("create: open, write and close; its fsync is counted apart\n");
	own_cpu_report();
}

/* Returns the share of thread NUMBER in a total. */
static unsigned long share(unsigned long total, unsigned long threads, unsigned long number)
{
	return total / threads + (number < total % threads);
}

static struct worker *make_workers(const struct settings *set, int top)
{
	size_t bytes = set->threads * sizeof(struct worker);
	struct worker *workers = must_alloc(aligned_alloc(_Alignof(struct worker), bytes));
	int shared = set->private ? -1 : directory_make(top, "shared");
	struct rng seeds = { .state = set->seed };

	memset(workers, 0, bytes);
	for (unsigned long i = 0; i < set->threads; i++) {
		struct worker *worker = &workers[i];
		char name[32];

		snprintf(name, sizeof(name), "thread-%04lu", i);
		worker->to_create = share(set->files, set->threads, i);
		worker->to_mix = share(set->operations, set->threads, i);
		worker->files = (struct small_files){
			.dir_fd = set->private ? directory_make(top, name) : shared,
			.thread = i,
			.contents = set->seed,
			.fsync_pct = set->fsync_pct,
			.rng.state = rng_next(&seeds),
		};
		small_files_init(&worker->files, worker->to_create + worker->to_mix);
	}
	return workers;
}

static void usage(void)
{
	printf("usage: createdelete [-D DIR] [-t THREADS] [-n FILES] [-o OPERATIONS] [-f PERCENT]\n"
	       "                    [--private] [-s SEED]\n"
	       "  -D DIR         directory in which " TOP " is made ($SEEKMETER_DIR)\n"
	       "  -t THREADS     threads ($SEEKMETER_THREADS, else 16)\n"
	       "  -n FILES       files created first, by all threads together (10000)\n"
	       "  -o OPERATIONS  creates, renames and deletes after that, of all threads together (10000)\n"
	       "  -f PERCENT     share of the created files that are synced (10)\n"
	       "  --private      a directory for each thread, instead of one for all\n"
	       "  -s SEED        the same seed gives the same operations ($SEEKMETER_SEED, else 1)\n");
}

static struct settings settings_of(int argc, char **argv)
{
	struct settings set = { .files = 10000, .operations = 10000, .fsync_pct = 10 };
	const struct choice choices[] = {
		{ .letter = 't', .number = &set.threads, .min = 1, .max = CREW_MAX },
		{ .letter = 'n', .number = &set.files, .max = FILES_MAX },
		{ .letter = 'o', .number = &set.operations, .max = FILES_MAX },
		{ .letter = 'f', .number = &set.fsync_pct, .max = 100 },
		{ .name = "private", .flag = &set.private },
	};
	const struct generator generator = { "createdelete", usage, &set.dir, &set.seed };

	set.threads = number_in_environment("SEEKMETER_THREADS", 16, 1, CREW_MAX);
	parse_options(&generator, CHOICES(choices), argc, argv);
	return set;
}

int main(int argc, char **argv)
{
	struct settings set = settings_of(argc, argv);
	int dir_fd = open(set.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct worker *workers;
	struct crew *crew;
	uint64_t living = 0;

	if (dir_fd < 0)
		fail_errno("cannot open the directory", set.dir);
	phases_open();
	results_open();
	contents_init();
	workers = make_workers(&set, directory_make(dir_fd, TOP));
	printf("createdelete in %s: %lu threads, %s, %lu files, %lu operations after them, "
	       "%lu %% of the files synced, seed %" PRIu64 "\n",
	       set.dir, set.threads, set.private ? "a directory each" : "one directory", set.files,
	       set.operations, set.fsync_pct, set.seed);
	fflush(stdout);
	crew = crew_start(set.threads, work, workers, sizeof(*workers));
	for (int phase = 0; phase < PHASES; phase++)
		measure_phase(crew, workers, set.threads, phase);
	crew_end(crew);
	for (unsigned long i = 0; i < set.threads; i++) {
		living += workers[i].files.n_living;
		small_files_free(&workers[i].files);
	}
	walk_expect(dir_fd, TOP, living);
	print_summary(workers, set.threads);
	free(workers);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
