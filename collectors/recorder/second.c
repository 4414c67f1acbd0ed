// SPDX-License-Identifier: BSD-2-Clause
/* Table second: one row a second of the whole watch; see second.h. */
#include "second.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "common/records.h"
#include "fail.h"
#include "options.h"
#include "rec_file.h"
#include "rec_layout.h"
#include "registry.h"

#define LATE_NS (50 * NS_PER_MS) /* so late a time bin is emptied at most, usually */

enum second_flag {
	NO_PRESSURE = 1, /* the kernel has no PSI of I/O */
	NO_REQUESTS = 2, /* requests are not recorded */
	NO_LOCKS = 4,	 /* waits for locks are not recorded */
};

struct second_record {
	uint64_t t_ns; /* its end */
	uint64_t length_ns;
	uint64_t reads, writes, read_bytes, write_bytes;
	uint64_t mean_q2c_ns, max_q2c_ns;
	uint64_t lock_wait_ns;
	uint64_t psi_io_some_us, psi_io_full_us;
	uint64_t lost;
	uint32_t depth_max;
	uint32_t flags;
};

/* What the rows of one second add up to. */
struct sums {
	struct second_record row;
	uint64_t q2c_ns, q2c_count;
};

static struct collector_state state; /* counts rows that could not be written */
static struct rec_file *file;
/* Of the second, and of the time after it: its row is written once its time bins are emptied. */
static struct sums now_sums, next_sums;
static uint64_t begin_ns, end_ns, bin_ns;
static uint64_t watch_ns; /* begin of the first second */
/* Running totals as the second began, and as it ended, once it has. */
static struct totals {
	uint64_t some_us, full_us, lost;
} before, after;
static bool is_over;
static bool has_requests, has_waits;
static int pressure_fd = -1, depth_fds[MAX_DEVS];
static int depth_count;

static uint64_t sum_lost(void)
{
	const struct collector_ops *ops;
	uint64_t sum = 0;

	for_each_collector(ops) for (int i = 0; i < MAX_REASONS && ops->state->lost[i].name; i++)
		sum += ops->state->lost[i].count;
	return sum;
}

static void read_totals(struct totals *totals)
{
	char text[512];
	ssize_t bytes = pread(pressure_fd, text, sizeof(text) - 1, 0);
	char *line, *total;

	totals->lost = sum_lost();
	totals->some_us = before.some_us;
	totals->full_us = before.full_us;
	if (bytes <= 0)
		return;
	text[bytes] = 0;
	total = strstr(text, "total=");
	if (total && !strncmp(text, "some ", 5))
		totals->some_us = strtoull(total + strlen("total="), NULL, 10);
	line = strstr(text, "\nfull ");
	total = line ? strstr(line, "total=") : NULL;
	if (total)
		totals->full_us = strtoull(total + strlen("total="), NULL, 10);
}

static int open_table(const struct options *options)
{
	static const struct {
		const char *name;
		size_t offset;
	} longs[] = {
#define LONG(name) { #name, offsetof(struct second_record, name) }
		LONG(t_ns),	    LONG(length_ns),	  LONG(reads),		LONG(writes),
		LONG(read_bytes),   LONG(write_bytes),	  LONG(mean_q2c_ns),	LONG(max_q2c_ns),
		LONG(lock_wait_ns), LONG(psi_io_some_us), LONG(psi_io_full_us), LONG(lost),
#undef LONG
	};
	char *json = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&json, &bytes);

	if (!out)
		return -1;
	rec_layout_begin(out, options, "second", sizeof(struct second_record));
	for (size_t i = 0; i < sizeof(longs) / sizeof(longs[0]); i++)
		fprintf(out, "{\"name\":\"%s\",\"offset\":%zu,\"bytes\":8,\"type\":\"u64\"},",
			longs[i].name, longs[i].offset);
	fprintf(out,
		"{\"name\":\"depth_max\",\"offset\":%zu,\"bytes\":4,\"type\":\"u32\"},"
		"{\"name\":\"flags\",\"offset\":%zu,\"bytes\":4,\"type\":\"u32\"}],"
		"\"enums\":{\"second_flag\":{\"1\":\"no_pressure\",\"2\":\"no_requests\",\"4\":\"no_locks\"}}}",
		offsetof(struct second_record, depth_max), offsetof(struct second_record, flags));
	if (fclose(out) == 0)
		file = rec_file_open_json(options, "second", json, sizeof(struct second_record));
	free(json);
	return file ? 0 : -1;
}

int second_open(const struct options *options)
{
	struct options whole = *options;

	whole.segment_fd = options->out_fd;
	bin_ns = options->bin_ns;
	if (open_table(&whole))
		return fail("second.rec", strerror(errno));
	rec_file_stay(file);
	pressure_fd = open("/proc/pressure/io", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < options->disk_count; i++) {
		char path[sizeof("/sys/block//inflight") + sizeof(options->disks[i].name)];

		snprintf(path, sizeof(path), "/sys/block/%s/inflight", options->disks[i].name);
		depth_fds[depth_count] = open(path, O_RDONLY | O_CLOEXEC);
		depth_count += depth_fds[depth_count] >= 0;
	}
	return 0;
}

void second_begin(uint64_t ready_ns)
{
	begin_ns = watch_ns = ready_ns;
	end_ns = ready_ns + NS_PER_SEC;
	read_totals(&before);
	memset(&now_sums, 0, sizeof(now_sums));
}

void second_has_requests(void)
{
	has_requests = true;
}

void second_has_waits(void)
{
	has_waits = true;
}

void second_add_request(const struct block_record *request)
{
	uint64_t at_ns = request->complete_ns ? request->complete_ns : request->end_by_ns;
	struct sums *sums = at_ns >= end_ns ? &next_sums : &now_sums;
	uint64_t q2c_ns = request->complete_ns - request->queue_ns;

	if (!begin_ns || at_ns < watch_ns)
		return;
	if (request->op == BLOCK_OP_READ) {
		sums->row.reads++;
		sums->row.read_bytes += request->bytes;
	} else if (request->op == BLOCK_OP_WRITE || request->op == BLOCK_OP_WRITE_ZEROES) {
		sums->row.writes++;
		sums->row.write_bytes += request->bytes;
	} else {
		return;
	}
	if (!request->complete_ns || request->complete_ns < request->queue_ns)
		return;
	sums->q2c_ns += q2c_ns;
	sums->q2c_count++;
	if (q2c_ns > sums->row.max_q2c_ns)
		sums->row.max_q2c_ns = q2c_ns;
}

void second_add_wait(const struct lock_wait_record *wait)
{
	if (begin_ns && wait->bin_ns >= watch_ns)
		(wait->bin_ns >= end_ns ? &next_sums : &now_sums)->row.lock_wait_ns +=
			wait->spin_ns + wait->sleep_ns;
}

static void look_at_depth(struct second_record *row)
{
	char text[64];

	for (int i = 0; i < depth_count; i++) {
		unsigned int reads, writes;
		ssize_t bytes = pread(depth_fds[i], text, sizeof(text) - 1, 0);

		if (bytes <= 0)
			continue;
		text[bytes] = 0;
		if (sscanf(text, "%u %u", &reads, &writes) == 2 && reads + writes > row->depth_max)
			row->depth_max = reads + writes;
	}
}

static uint64_t growth(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0; /* a kernel's count may step back by a rounding */
}

static void write_second(void)
{
	struct second_record *row = &now_sums.row;

	row->t_ns = end_ns;
	row->length_ns = end_ns - begin_ns;
	row->mean_q2c_ns = now_sums.q2c_count ? now_sums.q2c_ns / now_sums.q2c_count : 0;
	row->psi_io_some_us = growth(before.some_us, after.some_us);
	row->psi_io_full_us = growth(before.full_us, after.full_us);
	row->lost = growth(before.lost, after.lost);
	row->flags = (pressure_fd < 0 ? NO_PRESSURE : 0) | (has_requests ? 0 : NO_REQUESTS) |
		     (has_waits ? 0 : NO_LOCKS);
	state.recorded += rec_file_write(file, &state, row, 1);
	before = after;
	begin_ns = end_ns;
	end_ns += NS_PER_SEC;
	now_sums = next_sums;
	memset(&next_sums, 0, sizeof(next_sums));
	is_over = false;
}

/* The second goes on until then: the recorder was late, or the watch is over. */
static void extend(uint64_t until_ns)
{
	struct second_record *row = &now_sums.row;
	const struct second_record *more = &next_sums.row;

	row->reads += more->reads;
	row->writes += more->writes;
	row->read_bytes += more->read_bytes;
	row->write_bytes += more->write_bytes;
	row->lock_wait_ns += more->lock_wait_ns;
	if (more->max_q2c_ns > row->max_q2c_ns)
		row->max_q2c_ns = more->max_q2c_ns;
	if (more->depth_max > row->depth_max)
		row->depth_max = more->depth_max;
	now_sums.q2c_ns += next_sums.q2c_ns;
	now_sums.q2c_count += next_sums.q2c_count;
	memset(&next_sums, 0, sizeof(next_sums));
	end_ns = until_ns;
	read_totals(&after);
}

void second_tick(uint64_t now_ns)
{
	if (!file || !begin_ns)
		return;
	look_at_depth(now_ns < end_ns ? &now_sums.row : &next_sums.row);
	if (now_ns < end_ns)
		return;
	if (now_ns - end_ns >= NS_PER_SEC) {
		extend(now_ns);
		write_second();
		return;
	}
	if (!is_over)
		read_totals(&after);
	is_over = true;
	if (now_ns - end_ns >= bin_ns + LATE_NS)
		write_second();
}

void second_close(uint64_t until_ns)
{
	if (!file)
		return;
	if (begin_ns && until_ns > begin_ns) {
		if (is_over)
			write_second();
		extend(until_ns);
		write_second();
	}
	rec_file_close(file, &state);
	file = NULL;
	begin_ns = 0;
	if (pressure_fd >= 0)
		close(pressure_fd);
	while (depth_count)
		close(depth_fds[--depth_count]);
}

uint64_t second_lost(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < MAX_REASONS && state.lost[i].name; i++)
		sum += state.lost[i].count;
	return sum;
}
