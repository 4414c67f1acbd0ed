// SPDX-License-Identifier: BSD-2-Clause
/*
 * compilebench: ages a file system by creating, patching, compiling, cleaning, reading, stat'ing
 * and deleting trees with the names and sizes of a kernel source tree. After the description of Chris Mason's
 * compilebench (2007), of which no code is used; README.md in this folder lists the differences.
 *
 *   compilebench [-D DIR] [-i TREES] [-r OPERATIONS] [--makej] [-s SEED] [--dataset DIR]
 *
 * 1. order: gets the file system's readdir order of the names (tree_order.c).
 * 2. initial create: -i clean trees.
 * 3. -r operations: each is a random operation that some tree allows, on a random tree that allows it.
 *    With --makej instead: every tree is compiled, over all its directories at once, then every
 *    tree is read, then every tree is deleted.
 * From 3 on, a sync of the file system is part of each operation's time. The remaining trees are not
 * removed; a last phase, "verify", compares them with what was written. Each operation is one phase
 * in $SEEKMETER_PHASES. MB are 10^6 bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files/contents.h"
#include "common/files/dataset.h"
#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/stats/numbers.h"
#include "common/session/options.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"
#include "common/stats/rng.h"
#include "common/stats/stats.h"
#include "common/session/steps.h"
#include "common/files/tree.h"

#define TREES_MAX 100000

struct settings {
	const char *dir;
	const char *dataset;
	uint64_t trees;
	uint64_t operations;
	uint64_t seed;
	bool makej;
};

enum operation { CREATE, PATCH, COMPILE, CLEAN, READ, STAT, DELETE, OPERATIONS };

static struct work (*const run_operation[OPERATIONS])(const struct forest *, struct tree *) = {
	[CREATE] = tree_create, [PATCH] = tree_patch, [COMPILE] = tree_compile,
	[CLEAN] = tree_clean,	[READ] = tree_read,   [STAT] = tree_stat,
	[DELETE] = tree_delete,
};

/* A line of the summary. Some operations have two lines: for compiled trees and for others. */
enum result {
	INITIAL_CREATE,
	CREATE_TREE,
	PATCH_TREE,
	COMPILE_TREE,
	CLEAN_TREE,
	READ_TREE,
	READ_COMPILED_TREE,
	STAT_TREE,
	STAT_COMPILED_TREE,
	DELETE_TREE,
	DELETE_COMPILED_TREE,
	RESULTS
};

static const struct {
	const char *name; /* as in the published tables, and the phase's name */
	bool in_seconds;  /* reported as seconds an operation, else as MB/s of file data */
} result_facts[RESULTS] = {
	[INITIAL_CREATE] = { "initial create", false },
	[CREATE_TREE] = { "create tree", false },
	[PATCH_TREE] = { "patch tree", false },
	[COMPILE_TREE] = { "compile tree", false },
	[CLEAN_TREE] = { "clean tree", false },
	[READ_TREE] = { "read tree", false },
	[READ_COMPILED_TREE] = { "read compiled tree", false },
	[STAT_TREE] = { "stat tree", true },
	[STAT_COMPILED_TREE] = { "stat compiled tree", true },
	[DELETE_TREE] = { "delete tree", true },
	[DELETE_COMPILED_TREE] = { "delete compiled tree", true },
};

struct run {
	struct forest forest;
	struct tree *trees;
	unsigned int n_trees; /* ever created; a deleted tree's number is not used again */
	unsigned long steps_done;
	unsigned long steps;
	bool sync_each;
	struct samples samples[RESULTS];
};

static enum result result_of(enum operation operation, bool compiled)
{
	switch (operation) {
	case PATCH:
		return PATCH_TREE;
	case COMPILE:
		return COMPILE_TREE;
	case CLEAN:
		return CLEAN_TREE;
	case READ:
		return compiled ? READ_COMPILED_TREE : READ_TREE;
	case STAT:
		return compiled ? STAT_COMPILED_TREE : STAT_TREE;
	case DELETE:
		return compiled ? DELETE_COMPILED_TREE : DELETE_TREE;
	default:
		return CREATE_TREE;
	}
}

static void sync_fs(const struct run *run)
{
	/* not sync(2): dirty pages of other file systems are no cost of this one */
	if (syncfs(run->forest.fd) != 0)
		fail_errno("cannot be synced", "the file system of the trees");
}

static void perform(struct run *run, enum operation operation, struct tree *tree,
		    enum result result)
{
	struct work work;
	int64_t start_ns;
	int64_t end_ns;
	double seconds;
	double rate;

	own_cpu_begin();
	phase_announce(result_facts[result].name, now_ns());
	start_ns = phase_begin();
	work = run_operation[operation](&run->forest, tree);
	if (run->sync_each)
		sync_fs(run);
	end_ns = now_ns();
	own_cpu_end(1);
	phase_done(result_facts[result].name, start_ns, end_ns, work.files, work.bytes);
	seconds = (double)(end_ns - start_ns) / 1e9;
	rate = (double)work.bytes / 1e6 / seconds;
	samples_add(&run->samples[result], result_facts[result].in_seconds ? seconds : rate);
	printf("[%lu/%lu] %s %s: %" PRIu64 " files in %.3f s", ++run->steps_done, run->steps,
	       result_facts[result].name, tree_name(tree), work.files, seconds);
	if (!result_facts[result].in_seconds)
		printf(", %.1f MB, %.2f MB/s", (double)work.bytes / 1e6, rate);
	printf("\n");
	fflush(stdout);
}

static void create_next(struct run *run, enum result result)
{
	struct tree *tree = &run->trees[run->n_trees];

	tree->number = run->n_trees++;
	perform(run, CREATE, tree, result);
}

static bool allows(const struct tree *tree, enum operation operation)
{
	if (!tree->exists)
		return false;
	switch (operation) {
	case PATCH:
		return tree->state == UNPATCHED && !tree->compiled;
	case COMPILE:
		return !tree->compiled;
	case CLEAN:
		return tree->compiled;
	default:
		return operation != CREATE;
	}
}

static unsigned int count_allowing(const struct run *run, enum operation operation)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < run->n_trees; i++)
		count += allows(&run->trees[i], operation);
	return count;
}

/* The choice depends on the seed and the trees' states alone, never on the file system. */
static void random_operation(struct run *run, struct rng *rng)
{
	enum operation possible[OPERATIONS];
	unsigned int n_possible = 0;
	enum operation operation;
	uint64_t skip;

	for (int i = 0; i < OPERATIONS; i++)
		if (i == CREATE || count_allowing(run, i) > 0)
			possible[n_possible++] = i;
	operation = possible[rng_below(rng, n_possible)];
	if (operation == CREATE) {
		create_next(run, CREATE_TREE);
		return;
	}
	skip = rng_below(rng, count_allowing(run, operation));
	for (unsigned int i = 0; i < run->n_trees; i++) {
		struct tree *tree = &run->trees[i];

		if (allows(tree, operation) && skip-- == 0) {
			perform(run, operation, tree, result_of(operation, tree->compiled));
			return;
		}
	}
}

static void for_every_tree(struct run *run, enum operation operation)
{
	for (unsigned int i = 0; i < run->n_trees; i++)
		perform(run, operation, &run->trees[i],
			result_of(operation, run->trees[i].compiled));
}

/* Verifies the remaining trees; not part of the results. */
static void verify(const struct run *run)
{
	struct work all = { 0 };

	step_begin_unmeasured("verify");
	for (unsigned int i = 0; i < run->n_trees; i++) {
		struct work work = { 0 };

		if (run->trees[i].exists)
			work = tree_verify(&run->forest, &run->trees[i]);
		all.files += work.files;
		all.bytes += work.bytes;
		step_progress_of_many(all.files);
	}
	step_end(all.files, all.bytes);
}

/* Prints one line of the summary. With one observation, width and deviation are "single" in the results. */
static void print_result(enum result result, const struct samples *samples)
{
	const char *name = result_facts[result].name;
	double mean = samples_mean(samples);
	char width[32] = "\"single\"";
	char deviation[32] = "\"single\"";

	printf("%-22s %5lu %10.3f ", name, samples->count, mean);
	if (samples->count > 1) {
		snprintf(width, sizeof(width), "%.3f", samples_half_width(samples));
		snprintf(deviation, sizeof(deviation), "%.3f", samples_deviation(samples));
		printf("%10s %10s", width, deviation);
	} else {
		printf("%21s", "single observation");
	}
	printf("  %s\n", result_facts[result].in_seconds ? "s" : "MB/s");
	results_row(result_facts[result].in_seconds ? "seconds by operation" : "MB/s by operation",
		    "\"operation\":\"%s\",\"count\":%lu,\"mean\":%.3f,"
		    "\"half_of_95_pct_interval\":%s,\"std_deviation\":%s",
		    name, samples->count, mean, width, deviation);
}

static void print_summary(const struct run *run)
{
	printf("\n%-22s %5s %10s %10s %10s  %s\n", "operation", "count", "mean", "95% +/-",
	       "std dev", "unit");
	for (int i = 0; i < RESULTS; i++)
		if (run->samples[i].count > 0)
			print_result(i, &run->samples[i]);
	printf("MB/s: 10^6 bytes of file data a second.%s\n",
	       run->sync_each ? " All but the initial creates include a sync." : "");
	own_cpu_report();
}

static void usage(void)
{
	printf("usage: compilebench [-D DIR] [-i TREES] [-r OPERATIONS] [--makej] [-s SEED]\n"
	       "  -D DIR         directory of the trees ($SEEKMETER_DIR); made if missing\n"
	       "  -i TREES       initial trees (30)\n"
	       "  -r OPERATIONS  random operations after them (30); not with --makej\n"
	       "  --makej        compile, read and delete every tree instead; compiling writes\n"
	       "                 objects in all directories in turn\n"
	       "  -s SEED        the same seed gives the same operations ($SEEKMETER_SEED, else 1)\n"
	       "  --dataset DIR  directory of linux-tree-*.tsv.gz (workloads/datasets)\n");
}

static struct settings settings_of(int argc, char **argv)
{
	struct settings set = { .trees = 30, .operations = 30 };
	const struct choice choices[] = {
		{ .letter = 'i', .number = &set.trees, .max = TREES_MAX },
		{ .letter = 'r', .number = &set.operations, .max = TREES_MAX },
		{ .name = "makej", .flag = &set.makej },
		{ .name = "dataset", .text = &set.dataset },
	};
	const struct generator generator = { "compilebench", usage, &set.dir, &set.seed };

	parse_options(&generator, CHOICES(choices), argc, argv);
	return set;
}

/* The dataset of the source tree this program was built in: build/generators/../../workloads. */
static const char *default_dataset(void)
{
	static char path[8192];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);

	for (int up = 0; up < 3 && length > 0; up++) {
		path[length] = '\0';
		length = strrchr(path, '/') - path;
	}
	if (length < 0)
		fail_errno("cannot be read", "/proc/self/exe");
	memcpy(path + length, "/workloads/datasets", sizeof("/workloads/datasets"));
	return path;
}

static int open_dir(const char *name)
{
	int fd;

	if (mkdir(name, 0755) != 0 && errno != EEXIST)
		fail_errno("cannot make the directory", name);
	fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fail_errno("cannot open the directory", name);
	return fd;
}

int main(int argc, char **argv)
{
	struct settings set = settings_of(argc, argv);
	const char *dataset_dir = set.dataset != NULL ? set.dataset : default_dataset();
	struct dataset dataset = dataset_load(dataset_dir);
	unsigned long later_steps = set.makej ? 3 * set.trees : set.operations;
	struct run run = { .steps = set.trees + later_steps };
	struct rng rng = { .state = set.seed };
	int64_t start_ns;

	phases_open();
	results_open();
	contents_init();
	run.forest = (struct forest){
		.fd = open_dir(set.dir),
		.set = &dataset,
		.makej = set.makej,
	};
	run.trees = must_alloc(calloc(set.trees + set.operations + 1, sizeof(*run.trees)));
	printf("compilebench in %s: %lu trees, %lu operations after them%s, seed %" PRIu64 "\n",
	       set.dir, set.trees, later_steps, set.makej ? " (--makej)" : "", set.seed);

	phase_announce("order", now_ns());
	start_ns = phase_begin();
	tree_find_order(&run.forest);
	phase_done("order", start_ns, now_ns(), dataset.n_files, 0);
	printf("order: %zu names in %.3f s\n", dataset.n_files,
	       (double)(now_ns() - start_ns) / 1e9);
	fflush(stdout);

	for (unsigned long i = 0; i < set.trees; i++)
		create_next(&run, INITIAL_CREATE);
	if (later_steps > 0) {
		/* the creates' dirty pages must not be a cost of the first operation */
		phase_announce("sync after initial create", now_ns());
		start_ns = phase_begin();
		sync_fs(&run);
		phase_done("sync after initial create", start_ns, now_ns(), 1, 0);
		run.sync_each = true;
	}
	if (set.makej) {
		for_every_tree(&run, COMPILE);
		for_every_tree(&run, READ);
		for_every_tree(&run, DELETE);
	} else {
		for (unsigned long i = 0; i < set.operations; i++)
			random_operation(&run, &rng);
	}
	verify(&run);
	print_summary(&run);
	tree_free_order(&run.forest);
	dataset_free(&dataset);
	free(run.trees);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
