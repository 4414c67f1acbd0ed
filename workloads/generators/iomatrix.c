// SPDX-License-Identifier: BSD-2-Clause
/*
 * iomatrix: throughput of reads and writes of one file, by the file's size and by the size of each read or write.
 *
 *   iomatrix -D DIR [-f KIB] [-F KIB] [-r KIB] [-R KIB] [-x FACTOR] [-m MS] [--flush] [-s SEED]
 *
 * For every file size (-f to -F, each FACTOR times the one before) and every record size (-r to -R, no larger
 * than the file): the six operations below, each with one read(2) or write(2) a record, on one file that is
 * removed afterwards. A cell of the matrix is one operation on one file. Its time is that of its reads or
 * writes alone (and of an fsync, with --flush), without opening, closing and removing files. An operation
 * shorter than MS milliseconds is repeated until its repetitions together took that long.
 *   write, rewrite            a new file from front to back; the same again, with other contents
 *   read, reread              from front to back, twice
 *   random write, random read every record once, in an order that depends on the seed
 * All reads compare the first bytes of each record with what must be there. Then, as "verify", outside the
 * measured time, the file is read as a whole and every byte compared.
 *
 * The matrix is that of iozone, as in stepan2005 (docs/SOURCES.md); no code of iozone is used. The metrics are means of
 * KiB/s over cells of an operation; metrics[] defines the cells of each metric.
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

#include "common/session/fail.h"
#include "common/session/results.h"
#include "common/stats/numbers.h"
#include "common/session/options.h"
#include "common/session/own_cpu.h"
#include "common/session/phases.h"
#include "iomatrix/cell.h"

#define FILE_KIB_MAX	 (1024UL * 1024 * 1024)
#define TIMES_MAX	 1000
#define CELL_NS_MAX	 500000000 /* wall time of a cell after which no repetition starts */
#define PROGRESS_SECONDS 5

/* Each metric is a mean over the cells with record and file sizes in this range (KiB). */
static const struct metric {
	const char *name;
	uint64_t record_max;
	uint64_t record_min;
	uint64_t file_max;
} metrics[] = {
	{ "total_average", UINT64_MAX, 0, UINT64_MAX },
	{ "target_average", 32, 1, 2048 },
	{ "ora_ta", 16, 4, 4 * 1024 * 1024 },
	{ "specfp_ta", 4, 1, 4 * 1024 * 1024 },
};
#define METRICS		(sizeof(metrics) / sizeof(metrics[0]))
#define METRIC_FILE_MIN 4

struct settings {
	const char *dir;
	uint64_t file_min; /* KiB, as the next four */
	uint64_t file_max;
	uint64_t record_min;
	uint64_t record_max;
	uint64_t factor;
	uint64_t min_ns;
	uint64_t seed;
	bool flush;
};

/* KiB/s of one operation over its cells. */
struct summary {
	double highest;
	double lowest;
	double sum[METRICS];
	unsigned long cells[METRICS];
	unsigned long repeated;
};

static void add_to(struct summary *summary, const struct cell *cell, double speed,
		   unsigned long times)
{
	if (summary->highest < speed)
		summary->highest = speed;
	if (summary->lowest == 0 || summary->lowest > speed)
		summary->lowest = speed;
	summary->repeated += times > 1;
	for (size_t i = 0; i < METRICS; i++) {
		const struct metric *metric = &metrics[i];

		if (cell->record_kib >= metric->record_min &&
		    cell->record_kib <= metric->record_max &&
		    (metric->record_min == 0 || cell->file_kib >= METRIC_FILE_MIN) &&
		    cell->file_kib <= metric->file_max) {
			summary->sum[i] += speed;
			summary->cells[i]++;
		}
	}
}

static void run_operation(struct cell *cell, enum operation operation, const struct settings *set,
			  struct summary *summary)
{
	int64_t start_ns;
	int64_t measured_ns = 0;
	unsigned long times = 0;
	uint64_t ino_min = UINT64_MAX, ino_max = 0; /* each repetition of WRITE makes a new file */
	int64_t end_ns;
	double speed;

	phase_announce(operation_names[operation], now_ns());
	start_ns = phase_begin();
	own_cpu_begin();
	do {
		uint64_t ino;

		measured_ns += cell_run(cell, operation);
		ino = cell_inode(cell);
		ino_min = ino < ino_min ? ino : ino_min;
		ino_max = ino > ino_max ? ino : ino_max;
		times++;
		end_ns = now_ns();
	} while ((uint64_t)measured_ns < set->min_ns && times < TIMES_MAX &&
		 end_ns - start_ns < CELL_NS_MAX);
	own_cpu_end(1);
	speed = (double)(cell->file_kib * times) /
		((double)(measured_ns > 0 ? measured_ns : 1) / 1e9);
	add_to(summary, cell, speed, times);
	phase_done(operation_names[operation], start_ns, end_ns, cell->records * times,
		   cell->file_kib * KIB * times);
	results_row("iomatrix cell",
		    "\"operation\":\"%s\",\"file_kib\":%" PRIu64 ",\"record_kib\":%" PRIu64
		    ",\"kib_per_s\":%.1f,\"times\":%lu,\"measured_ns\":%" PRId64
		    ",\"start_ns\":%" PRId64 ",\"end_ns\":%" PRId64 ",\"bytes\":%" PRIu64
		    ",\"ino_min\":%" PRIu64 ",\"ino_max\":%" PRIu64,
		    operation_names[operation], cell->file_kib, cell->record_kib, speed, times,
		    measured_ns, start_ns, end_ns, cell->file_kib * KIB * times, ino_min, ino_max);
}

static void run_cells(int dir_fd, uint64_t file_kib, uint64_t record_kib,
		      const struct settings *set, struct summary summaries[OPERATIONS])
{
	struct cell cell = {
		.file_kib = file_kib,
		.record_kib = record_kib,
		.seed = set->seed,
		.flush = set->flush,
		.dir_fd = dir_fd,
	};
	int64_t start_ns;

	cell_begin(&cell);
	for (int operation = 0; operation < OPERATIONS; operation++)
		run_operation(&cell, operation, set, &summaries[operation]);
	phase_announce("verify", now_ns());
	start_ns = phase_begin();
	cell_verify(&cell);
	phase_done("verify", start_ns, now_ns(), cell.records, file_kib * KIB);
	cell_end(&cell);
}

/* Returns the number of pairs of file size and record size; *KIBS: the sum of their file sizes. */
static unsigned long count_cells(const struct settings *set, uint64_t *kibs)
{
	unsigned long cells = 0;

	*kibs = 0;
	for (uint64_t file = set->file_min; file <= set->file_max; file *= set->factor)
		for (uint64_t record = set->record_min; record <= set->record_max && record <= file;
		     record *= set->factor) {
			if (file % record != 0)
				continue;
			if (file / record > UINT32_MAX)
				fail(EXIT_WRONG_WORDS,
				     "iomatrix: a file of %" PRIu64 " KiB in records of %" PRIu64
				     " KiB is too much: give larger records (-r)",
				     file, record);
			cells++;
			*kibs += file;
		}
	if (cells == 0)
		fail(EXIT_WRONG_WORDS, "iomatrix: no record fits into any file; give larger files "
				       "(-F) or smaller records (-r)");
	return cells;
}

static void run_matrix(int dir_fd, const struct settings *set, struct summary summaries[OPERATIONS])
{
	int64_t progress_ns = now_ns();
	unsigned long done = 0;
	uint64_t done_kib = 0;
	uint64_t all_kib;
	unsigned long all = count_cells(set, &all_kib);

	for (uint64_t file = set->file_min; file <= set->file_max; file *= set->factor)
		for (uint64_t record = set->record_min; record <= set->record_max && record <= file;
		     record *= set->factor) {
			run_cells(dir_fd, file, record, set, summaries);
			done++;
			done_kib += file;
			if (now_ns() - progress_ns < PROGRESS_SECONDS * (int64_t)1000000000)
				continue;
			progress_ns = now_ns();
			printf("[%lu/%lu] file %" PRIu64 " KiB, record %" PRIu64
			       " KiB; %.0f %% of the bytes\n",
			       done, all, file, record, 100.0 * (double)done_kib / (double)all_kib);
			fflush(stdout);
		}
}

static double mean_of(const struct summary *summary, size_t metric)
{
	return summary->cells[metric] ? summary->sum[metric] / (double)summary->cells[metric] : 0;
}

static void print_summary(const struct summary summaries[OPERATIONS], unsigned long cells)
{
	printf("\nKiB/s         %12s %12s %12s %12s %12s %12s\n", "maximum", "minimum", "total avg",
	       "target avg", "ora-ta", "specfp-ta");
	for (int operation = 0; operation < OPERATIONS; operation++) {
		const struct summary *summary = &summaries[operation];
		double means[METRICS];

		for (size_t i = 0; i < METRICS; i++)
			means[i] = mean_of(summary, i);
		printf("%-13s %12.0f %12.0f %12.0f %12.0f %12.0f %12.0f\n",
		       operation_names[operation], summary->highest, summary->lowest, means[0],
		       means[1], means[2], means[3]);
		/* 0: no cell of this run belongs to the metric */
		results_row("KiB/s by operation",
			    "\"operation\":\"%s\",\"maximum\":%.1f,\"minimum\":%.1f,\"%s\":%.1f,"
			    "\"%s\":%.1f,\"%s\":%.1f,\"%s\":%.1f,\"cells\":%lu,\"repeated\":%lu",
			    operation_names[operation], summary->highest, summary->lowest,
			    metrics[0].name, means[0], metrics[1].name, means[1], metrics[2].name,
			    means[2], metrics[3].name, means[3], cells, summary->repeated);
	}
	printf("0: no cell of this run belongs to the metric. Verified: all files are as they were written\n");
}

static void usage(void)
{
	printf("usage: iomatrix [-D DIR] [-f KIB] [-F KIB] [-r KIB] [-R KIB] [-x FACTOR] [-m MS]\n"
	       "                [--flush] [-s SEED]\n"
	       "  -D DIR     directory in which " TOP " is made ($SEEKMETER_DIR)\n"
	       "  -f, -F     smallest and largest file, KiB (4, 4096)\n"
	       "  -r, -R     smallest and largest record, KiB (1, 1024)\n"
	       "  -x FACTOR  factor between one size and the next (2)\n"
	       "  -m MS      repeat an operation until it took this long in total (5)\n"
	       "  --flush    measure an fsync at the end of each writing operation too\n"
	       "  -s SEED    the same seed gives the same order ($SEEKMETER_SEED, else 1)\n");
}

static struct settings settings_of(int argc, char **argv)
{
	uint64_t min_ms = 5;
	struct settings set = { .file_min = 4,
				.file_max = 4096,
				.record_min = 1,
				.record_max = RECORD_KIB_MAX,
				.factor = 2 };
	const struct choice choices[] = {
		{ .letter = 'f', .number = &set.file_min, .min = 1, .max = FILE_KIB_MAX },
		{ .letter = 'F', .number = &set.file_max, .min = 1, .max = FILE_KIB_MAX },
		{ .letter = 'r', .number = &set.record_min, .min = 1, .max = RECORD_KIB_MAX },
		{ .letter = 'R', .number = &set.record_max, .min = 1, .max = RECORD_KIB_MAX },
		{ .letter = 'x', .number = &set.factor, .min = 2, .max = 1024 },
		{ .letter = 'm', .number = &min_ms, .max = 10000 },
		{ .name = "flush", .flag = &set.flush },
	};
	const struct generator generator = { "iomatrix", usage, &set.dir, &set.seed };

	parse_options(&generator, CHOICES(choices), argc, argv);
	set.min_ns = min_ms * 1000000;
	return set;
}

int main(int argc, char **argv)
{
	struct settings set = settings_of(argc, argv);
	struct summary summaries[OPERATIONS] = { 0 };
	uint64_t kibs;
	unsigned long cells = count_cells(&set, &kibs);
	int dir_fd;

	phases_open();
	results_open();
	cells_init();
	dir_fd = open(set.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		fail_errno("cannot open the directory", set.dir);
	if (mkdirat(dir_fd, TOP, 0755) != 0)
		fail_errno("cannot make the directory", TOP);
	printf("iomatrix in %s: %lu cells an operation, %" PRIu64 " MiB each of 6 operations%s, "
	       "seed %" PRIu64 "\n",
	       set.dir, cells, kibs / KIB, set.flush ? ", writes with fsync" : "", set.seed);
	fflush(stdout);
	int top_fd = openat(dir_fd, TOP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (top_fd < 0)
		fail_errno("cannot open the directory", TOP);
	run_matrix(top_fd, &set, summaries);
	if (unlinkat(dir_fd, TOP, AT_REMOVEDIR) != 0)
		fail_errno("cannot remove", TOP);
	print_summary(summaries, cells);
	own_cpu_report();
	if (fflush(stdout) != 0 || ferror(stdout))
		fail_errno("cannot write", "the summary");
	return 0;
}
