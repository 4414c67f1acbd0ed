// SPDX-License-Identifier: BSD-2-Clause
/*
 * filemark: threads do transactions on many small files, as mail and news servers do: PostMark's transactions, with
 * threads, repeated until the confidence interval is narrow. After Bryant, Forester and Hawkes, USENIX 2002.
 *
 *   filemark -D DIR [-t THREADS] [-n FILES] [-d DIRS] [-l BYTES] [-u BYTES] [-b BYTES] [-r PERCENT] [-c PERCENT]
 *            [-w SECONDS] [-m SECONDS] [-p PHASES] [-P PHASES] [-o TRANSACTIONS] [-s SEED]
 *
 * First FILES files of -l to -u bytes are created in DIRS directories. Then come transaction phases, each after an
 * unmount and a mount: a warm-up of -w seconds, then -m measured seconds. A transaction has two operations: a random
 * file is read whole (with a chance of -r percent) or appended to; then a file is created (with a chance of -c percent)
 * or a random file is deleted. With -o, a phase is a number of transactions instead of a time.
 *
 * The number of phases is between -p and -P. Phases are repeated until half the 95 % confidence interval of the mean
 * rate is at most 10 % of the mean. The first phase is always left out of the mean; more of the first phases are left
 * out, at most half of all, if that makes the interval narrow enough.
 *
 * A last phase, "verify", reads and compares every remaining file; no other file may exist. A thread works only on the
 * files it made; its operations depend only on the seed and the thread's number.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files/contents.h"
#include "common/session/crew.h"
#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/files/file_set.h"
#include "common/stats/numbers.h"
#include "common/session/options.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"
#include "common/session/remount.h"
#include "common/stats/stats.h"
#include "common/files/walk.h"

#define TOP	   "filemark" /* the directory that is made */
#define PHASES_MAX 100
#define FILES_MAX  100000000
#define CERTAIN	   0.10 /* largest half width of the confidence interval, as a part of the mean */

static struct settings {
	const char *dir;
	uint64_t threads, files, transactions;
	uint64_t read_pct, create_pct;
	uint64_t warmup_s, measured_s;
	uint64_t phases_min, phases_max;
	uint64_t seed;
	struct file_shape shape;
} set = {
	.files = 10000,
	.read_pct = 75,
	.create_pct = 50,
	.warmup_s = 30,
	.measured_s = 120,
	.phases_min = 12,
	.phases_max = 24,
	.shape = { .dirs = 10, .low_bytes = 512, .high_bytes = 10004, .io_bytes = 512 },
};

enum kind { KIND_CREATE, KIND_TRANSACTIONS, KIND_VERIFY };

static const char *const operation_names[FILE_OPERATIONS] = { "create", "read", "append",
							      "delete" };

struct worker {
	struct file_set files;
	uint64_t
		share; /* the thread's part of the files to create, then of a phase's transactions */
	uint64_t
		counted; /* transactions measured in the present phase; bytes: read and written by them */
	uint64_t bytes;
} __attribute__((aligned(128)));

/* The measured part of the present phase. */
static int64_t from_ns, until_ns;

static uint64_t bytes_moved(const struct file_set *files)
{
	return files->times[FILE_CREATE].bytes + files->times[FILE_READ].bytes +
	       files->times[FILE_APPEND].bytes;
}

static bool by_chance(struct file_set *files, uint64_t percent)
{
	return rng_below(&files->rng, 100) < percent;
}

static void transaction(struct file_set *files)
{
	bool read = by_chance(files, set.read_pct), create = by_chance(files, set.create_pct);

	if (files->n_files == 0)
		create = true;
	else if (read)
		file_set_read(files);
	else
		file_set_append(files);
	if (create)
		file_set_create(files);
	else
		file_set_delete(files);
}

static void transactions_by_time(struct worker *me, _Atomic uint64_t *done)
{
	int64_t now = now_ns();

	while (now < until_ns) {
		uint64_t before = bytes_moved(&me->files);

		transaction(&me->files);
		crew_did(done, 1);
		now = now_ns();
		if (now >= from_ns && now < until_ns) {
			me->counted++;
			me->bytes += bytes_moved(&me->files) - before;
		}
	}
}

static void work(void *own, int kind, _Atomic uint64_t *done)
{
	struct worker *me = own;
	uint64_t before = bytes_moved(&me->files);

	me->bytes = me->counted = 0;
	if (kind == KIND_TRANSACTIONS && !set.transactions) {
		transactions_by_time(me, done);
		return;
	}
	if (kind == KIND_VERIFY) {
		for (uint32_t i = 0; i < me->files.n_files; i++, crew_did(done, 1))
			me->bytes += file_set_verify(&me->files, i);
		return;
	}
	for (; me->counted < me->share; me->counted++, crew_did(done, 1)) {
		if (kind == KIND_CREATE)
			file_set_create(&me->files);
		else
			transaction(&me->files);
	}
	me->bytes = bytes_moved(&me->files) - before;
}

/* Returns the share of thread NUMBER in a total. */
static uint64_t share(uint64_t total, uint64_t number)
{
	return total / set.threads + (number < total % set.threads);
}

static int open_top(bool make)
{
	int dir_fd = open(set.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;

	if (dir_fd < 0)
		fail_errno("cannot open the directory", set.dir);
	if (make && mkdirat(dir_fd, TOP, 0755) != 0)
		fail_errno("cannot make the directory", TOP);
	fd = openat(dir_fd, TOP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		fail_errno("cannot open the directory", TOP);
	close(dir_fd);
	return fd;
}

static void use_top(struct worker *workers, int fd)
{
	for (unsigned long i = 0; i < set.threads; i++)
		workers[i].files.dir_fd = fd;
}

/* Remounts the file system under test. Returns NULL, or the reason why it was not remounted. */
static const char *cold_caches(struct worker *workers)
{
	const char *why;

	close(workers[0].files.dir_fd);
	why = remount();
	use_top(workers, open_top(false));
	return why;
}

/* Runs one transaction phase. Returns transactions per second. */
static double transaction_phase(struct crew *crew, struct worker *workers, unsigned long number)
{
	struct crew_span span;
	uint64_t counted = 0, bytes = 0;
	int64_t start_ns;
	double rate;

	if (!set.transactions && set.warmup_s)
		phase_announce("warm-up", now_ns());
	phase_announce("transactions",
		       now_ns() + (set.transactions ? 0 : (int64_t)set.warmup_s * 1000000000));
	start_ns = phase_begin();
	from_ns = start_ns + (int64_t)set.warmup_s * 1000000000;
	until_ns = from_ns + (int64_t)set.measured_s * 1000000000;
	if (!set.transactions) {
		if (set.warmup_s)
			from_ns = phase_cut(from_ns);
		until_ns = phase_cut(until_ns);
	}
	for (unsigned long i = 0; i < set.threads; i++)
		workers[i].share = share(set.transactions, i);
	own_cpu_begin();
	span = crew_phase(crew, KIND_TRANSACTIONS, "transactions");
	own_cpu_end(set.threads);
	if (set.transactions) {
		from_ns = span.start_ns;
		until_ns = span.end_ns;
	} else if (set.warmup_s) {
		phase_done("warm-up", start_ns, from_ns, 0, 0);
	}
	for (unsigned long i = 0; i < set.threads; i++) {
		counted += workers[i].counted;
		bytes += workers[i].bytes;
	}
	phase_done("transactions", from_ns, until_ns, counted, bytes);
	rate = (double)counted * 1e9 / (double)(until_ns - from_ns);
	printf("[%lu] %" PRIu64 " transactions in %.3f s, %.1f a second\n", number, counted,
	       (double)(until_ns - from_ns) / 1e9, rate);
	fflush(stdout);
	results_row("transactions by phase",
		    "\"phase\":%lu,\"transactions\":%" PRIu64 ",\"transactions_per_s\":%.1f",
		    number, counted, rate);
	return rate;
}

static void measure(struct crew *crew, struct worker *workers)
{
	double rates[PHASES_MAX];
	unsigned long count = 0, drop = 0;
	struct samples kept;
	const char *warm = NULL;

	while (count < set.phases_min || (count < set.phases_max && drop == 0)) {
		const char *why = cold_caches(workers);

		warm = why ? why : warm;
		rates[count] = transaction_phase(crew, workers, count + 1);
		count++;
		drop = stats_leave_out(rates, count, CERTAIN);
	}
	if (warm)
		printf("caches were not cold: %s\n", warm);
	if (count < 3) {
		printf("transactions a second: %.1f, from the last phase, a single observation\n",
		       rates[count - 1]);
		results_row("", "\"transactions_per_s\":%.1f", rates[count - 1]);
		results_row("", "\"phases_kept\":1");
		return;
	}
	kept = samples_without(rates, count, drop ? drop : 1);
	printf("transactions a second: %.1f +- %.1f (95 %%, %.1f %% of the mean) in %lu phases, the first %lu left "
	       "out\n",
	       samples_mean(&kept), samples_half_width(&kept),
	       100 * samples_half_width(&kept) / samples_mean(&kept), kept.count,
	       count - kept.count);
	results_row("", "\"transactions_per_s\":%.1f", samples_mean(&kept));
	results_row("", "\"half_of_its_95_pct_interval_per_s\":%.1f", samples_half_width(&kept));
	results_row("", "\"phases_kept\":%lu", kept.count);
	if (!drop)
		printf("not certain to 10 %% after %lu phases; allow more with ARGS=\"-P MORE\"\n",
		       count);
}

static void print_operation(const char *name, const struct file_times *times)
{
	double mean_us = times->count ? (double)times->total_ns / 1e3 / (double)times->count : 0;
	double longest_us = (double)times->longest_ns / 1e3;

	printf("%-9s %10" PRIu64 " %14" PRIu64 " %12.1f %12.1f\n", name, times->count, times->bytes,
	       mean_us, longest_us);
	results_row("filemark operations",
		    "\"operation\":\"%s\",\"count\":%" PRIu64 ",\"bytes\":%" PRIu64
		    ",\"mean_us\":%.1f,\"longest_us\":%.1f",
		    name, times->count, times->bytes, mean_us, longest_us);
}

static void print_summary(const struct worker *workers)
{
	uint64_t full = 0;

	printf("\n%-9s %10s %14s %12s %12s\n", "operation", "count", "bytes", "mean us",
	       "longest us");
	for (int operation = 0; operation < FILE_OPERATIONS; operation++) {
		struct file_times all = { 0 };

		for (unsigned long i = 0; i < set.threads; i++) {
			const struct file_times *times = &workers[i].files.times[operation];

			all.count += times->count;
			all.bytes += times->bytes;
			all.total_ns += times->total_ns;
			if (times->longest_ns > all.longest_ns)
				all.longest_ns = times->longest_ns;
		}
		print_operation(operation_names[operation], &all);
	}
	for (unsigned long i = 0; i < set.threads; i++)
		full += workers[i].files.full;
	printf("all phases and warm-ups together; %" PRIu64
	       " appends found the largest file allowed and did nothing\n",
	       full);
	results_row("", "\"appends_to_full_files\":%" PRIu64, full);
	own_cpu_report();
}

static void verify(struct crew *crew, struct worker *workers)
{
	int dir_fd = open(set.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t living = 0, bytes = 0;
	struct crew_span span;

	phase_announce("verify", now_ns());
	span = crew_phase(crew, KIND_VERIFY, "verify");
	if (dir_fd < 0)
		fail_errno("cannot open the directory", set.dir);
	for (unsigned long i = 0; i < set.threads; i++) {
		living += workers[i].files.n_files;
		bytes += workers[i].bytes;
	}
	phase_done("verify", span.start_ns, span.end_ns, span.done, bytes);
	walk_expect(dir_fd, TOP, living);
	close(dir_fd);
}

static void usage(void)
{
	printf("usage: filemark [-D DIR] [-t THREADS] [-n FILES] [-d DIRS] [-l BYTES] [-u BYTES] [-b BYTES]\n"
	       "                [-r PERCENT] [-c PERCENT] [-w SECONDS] [-m SECONDS] [-p PHASES] [-P PHASES]\n"
	       "                [-o TRANSACTIONS] [-s SEED]\n"
	       "  -D DIR           directory in which " TOP " is made ($SEEKMETER_DIR)\n"
	       "  -t THREADS       threads ($SEEKMETER_THREADS, else 1)\n"
	       "  -n FILES         files at the beginning, of all threads together (10000)\n"
	       "  -d DIRS          directories of the files (10)\n"
	       "  -l, -u BYTES     size of the smallest and the largest file (512, 10004)\n"
	       "  -b BYTES         size of a read or write (512)\n"
	       "  -r PERCENT       share of reads; the others are appends (75)\n"
	       "  -c PERCENT       share of creates; the others are deletes (50)\n"
	       "  -w, -m SECONDS   warm-up and measured time of a phase (30, 120)\n"
	       "  -p, -P PHASES    fewest phases; most, if the mean is not certain to 10 %% (12, 24)\n"
	       "  -o TRANSACTIONS  transactions of a phase, of all threads together, instead of a time\n"
	       "  -s SEED          the same seed gives the same operations ($SEEKMETER_SEED, else 1)\n");
}

static void read_settings(int argc, char **argv)
{
	struct file_shape *shape = &set.shape;
	const struct choice choices[] = {
		{ .letter = 't', .number = &set.threads, .min = 1, .max = CREW_MAX },
		{ .letter = 'n', .number = &set.files, .max = FILES_MAX },
		{ .letter = 'd', .number = &shape->dirs, .min = 1, .max = 99999 },
		{ .letter = 'l', .number = &shape->low_bytes, .max = FILE_SET_BYTES_MAX },
		{ .letter = 'u',
		  .number = &shape->high_bytes,
		  .min = 1,
		  .max = FILE_SET_BYTES_MAX },
		{ .letter = 'b', .number = &shape->io_bytes, .min = 1, .max = FILE_SET_IO_MAX },
		{ .letter = 'r', .number = &set.read_pct, .max = 100 },
		{ .letter = 'c', .number = &set.create_pct, .max = 100 },
		{ .letter = 'w', .number = &set.warmup_s, .max = 3600 },
		{ .letter = 'm', .number = &set.measured_s, .min = 1, .max = 3600 },
		{ .letter = 'p', .number = &set.phases_min, .min = 1, .max = PHASES_MAX },
		{ .letter = 'P', .number = &set.phases_max, .min = 1, .max = PHASES_MAX },
		{ .letter = 'o', .number = &set.transactions, .min = 1, .max = FILES_MAX },
	};
	const struct generator generator = { "filemark", usage, &set.dir, &set.seed };

	set.threads = number_in_environment("SEEKMETER_THREADS", 1, 1, CREW_MAX);
	parse_options(&generator, CHOICES(choices), argc, argv);
	if (shape->low_bytes > shape->high_bytes)
		fail(EXIT_WRONG_WORDS, "filemark: -l is above -u; see --help");
	shape->contents = set.seed;
}

static struct worker *make_workers(void)
{
	size_t bytes = set.threads * sizeof(struct worker);
	struct worker *workers = must_alloc(aligned_alloc(_Alignof(struct worker), bytes));
	struct rng seeds = { .state = set.seed };

	memset(workers, 0, bytes);
	for (unsigned long i = 0; i < set.threads; i++) {
		workers[i].files = (struct file_set){ .shape = &set.shape,
						      .thread = i,
						      .rng.state = rng_next(&seeds) };
		workers[i].share = share(set.files, i);
	}
	return workers;
}

int main(int argc, char **argv)
{
	struct worker *workers;
	struct crew_span span;
	struct crew *crew;
	uint64_t bytes = 0;

	read_settings(argc, argv);
	workers = make_workers();
	phases_open();
	results_open();
	contents_init();
	use_top(workers, open_top(true));
	file_set_dirs(&set.shape, workers[0].files.dir_fd);
	printf("filemark in %s: %" PRIu64 " threads, %" PRIu64 " files of %" PRIu64 " to %" PRIu64
	       " bytes in %" PRIu64 " directories, %" PRIu64 " bytes at a time, %" PRIu64
	       " %% reads, %" PRIu64 " %% creates, seed %" PRIu64 "\n",
	       set.dir, set.threads, set.files, set.shape.low_bytes, set.shape.high_bytes,
	       set.shape.dirs, set.shape.io_bytes, set.read_pct, set.create_pct, set.seed);
	fflush(stdout);
	crew = crew_start(set.threads, work, workers, sizeof(*workers));
	phase_announce("create", now_ns());
	own_cpu_begin();
	span = crew_phase(crew, KIND_CREATE, "create");
	own_cpu_end(set.threads);
	for (unsigned long i = 0; i < set.threads; i++)
		bytes += workers[i].bytes;
	phase_done("create", span.start_ns, span.end_ns, span.done, bytes);
	printf("create: %" PRIu64 " files in %.3f s\n", span.done,
	       (double)(span.end_ns - span.start_ns) / 1e9);
	measure(crew, workers);
	verify(crew, workers);
	crew_end(crew);
	close(workers[0].files.dir_fd);
	print_summary(workers);
	for (unsigned long i = 0; i < set.threads; i++)
		file_set_free(&workers[i].files);
	free(workers);
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
