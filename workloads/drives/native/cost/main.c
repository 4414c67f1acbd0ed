// SPDX-License-Identifier: BSD-2-Clause
/*
 * drive-cost: what requests cost on a disk: the drive's model in virtual time, below a host's elevator.
 *
 *   build/drive-cost --params=FILE [--requests=FILE] [--rows=FILE] [--text] [--closed=N [--gaps]] [--elevator=N]
 *                    [--merge=SECTORS] [--seed=N]
 *
 *   --params    the drive, flat text as params.h describes it
 *   --requests  the stream; without it standard input
 *   --rows      one row a service goes there; without it only the totals are printed
 *   --text      requests and rows are lines instead of records
 *   --closed    at most N requests are in the host at a time: each next one comes when one ends. Without it a request
 *               comes at its recorded arrival
 *   --gaps      with --closed: but not sooner after the one before it than recorded
 *   --elevator  requests that the elevator holds besides those in the drive (nr_requests, up to 4096; 0: none, the
 *               drive gets them in order): mq-deadline with its defaults: reads and writes sorted by position, 16 a batch,
 *               reads first, but writes after 2 batches of reads, expiry after 0.5 s and 5 s. The drive gets as many at a time
 *               as its queue is deep. A flush passes by the elevator. A request that comes while all are taken waits
 *   --merge     the elevator merges requests that follow each other, up to this many sectors
 *   --seed      phase of the platter
 *
 * A request: arrival_ns op sector sectors fua. As a line: "1000 r 2048 8 0": op r, w or f (flush: sector, sectors 0). As a
 * record of 24 bytes, little endian, numpy: [("arrival_ns", "<i8"), ("sector", "<u8"), ("sectors", "<u4"), ("op", "u1"),
 * ("fua", "u1"), ("zero", "<u2")], op as in drive.h: 0 read, 1 write, 2 flush. Sorted by arrival: one that is earlier than
 * the one before it comes with it. One of more than 65536 sectors, or beyond the disk's end, is an error.
 *
 * A row, in order of end: of 104 bytes, numpy: [("request", "<i8"), ("issue_ns", "<i8"), ("arrival_ns", "<i8"),
 * ("start_ns", "<i8"), ("end_ns", "<i8"), ("overhead_ns", "<i8"), ("seek_ns", "<i8"), ("rotation_ns", "<i8"),
 * ("transfer_ns", "<i8"), ("wait_ns", "<i8"), ("sector", "<u8"), ("sectors", "<u4"), ("cylinder", "<u4"), ("queued", "<u4"),
 * ("op", "u1"), ("how", "u1"), ("fua", "u1"), ("by_head", "u1")]; as a line the same in that order. request: its number in
 * the stream, from 0 (of a destage: -1; of merged ones: a row each, the pieces in the first one's, the others' 0 but for
 * their times); issue_ns: it came to the host; arrival_ns: to the drive; op 3: destage; how 0 media, 1 cache,
 * 2 read-ahead; by_head: 1 if it kept the head busy.
 *
 * Standard output: one JSON line of totals: requests, reads, writes, flushes, destages (counts); first_ns (issue of the
 * first request), end_ns (of the last one); response_ns, drive_ns (sums of end - issue, and of end -
 * arrival at the drive; at most 2^63 - 1);
 * seek_ns, rotation_ns, transfer_ns, overhead_ns: of the head's work; head_idle_ns: (end - first) without them; bus_ns:
 * what the electronics took beside the head; flush_wait_ns; seeks (head's works with a movement before them); read_hits,
 * write_hits (served without the platter); dirty_bytes (in the cache at the end).
 *
 * Exit status: 0, 1: a file failed, 2: an option, the params or a request are wrong, with one line on standard error.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "model/params.h"
#include "stream.h"

struct totals {
	uint64_t requests, reads, writes, flushes, destages;
	uint64_t seeks, read_hits, write_hits;
	int64_t first_ns, end_ns, response_ns, drive_ns;
	int64_t seek_ns, rotation_ns, transfer_ns, overhead_ns, bus_ns, flush_wait_ns;
};

struct cost {
	struct drive_params params;
	struct drive *drive;
	struct host host;
	FILE *requests;
	FILE *rows;
	bool text;
	bool keeps_gaps;
	uint32_t closed; /* 0: as recorded */

	struct drive_request next; /* read, not in the host yet */
	bool has_next;
	int64_t issued_ns;   /* the last request came */
	int64_t recorded_ns; /* it was recorded at */
	uint32_t in_drive;
	struct totals totals;
};

static int complain(int status, const char *subject, const char *why)
{
	fprintf(stderr, "drive-cost: %s: %s\n", subject, why);
	return status;
}

/* 0, or the exit status. */
static int read_next(struct cost *cost)
{
	uint64_t number = cost->totals.requests;
	char subject[64];

	snprintf(subject, sizeof(subject), "request %" PRIu64, number);
	switch (stream_read(cost->requests, cost->text, number, &cost->next)) {
	case STREAM_END:
		return 0;
	case STREAM_FAILED:
		return complain(1, subject, strerror(errno));
	case STREAM_WRONG:
		return complain(2, subject, "is none: arrival_ns op sector sectors fua");
	default:
		break;
	}
	if (cost->next.op != DRIVE_OP_FLUSH &&
	    (cost->next.sectors < 1 || cost->next.sectors > DRIVE_MOST_SECTORS))
		return complain(2, subject, "has no sectors or more than 65536: split it");
	if (cost->next.op != DRIVE_OP_FLUSH &&
	    (cost->next.sector >= cost->params.sectors ||
	     cost->next.sectors > cost->params.sectors - cost->next.sector))
		return complain(2, subject, "ends beyond the disk's end: give it more sectors");
	cost->has_next = true;
	return 0;
}

/* When the next request comes to the host, if there is a place for it. */
static int64_t issue_ns(const struct cost *cost)
{
	int64_t gap_ns = cost->next.arrival_ns - cost->recorded_ns;

	if (!cost->closed)
		return cost->next.arrival_ns;
	if (!cost->keeps_gaps || cost->totals.requests == 0)
		return 0;
	return cost->issued_ns + (gap_ns > 0 ? gap_ns : 0);
}

static bool has_place(const struct cost *cost)
{
	return cost->host.count < (cost->closed ? cost->closed : HOST_MOST_REQUESTS);
}

/* 0, or the exit status. */
static int give_to_drive(struct cost *cost, uint32_t number)
{
	struct host_request *entry = &cost->host.requests[number];

	entry->request.id = number;
	entry->request.sector = entry->sector;
	entry->request.sectors = (uint32_t)entry->sectors;
	entry->request.arrival_ns = drive_now_ns(cost->drive);
	if (drive_submit(cost->drive, &entry->request) < 0)
		return complain(1, "the drive takes no request", strerror(errno));
	cost->in_drive++;
	return 0;
}

/* Takes all that has come into the host, and gives the drive what it has room for. 0, or the exit status. */
static int feed(struct cost *cost)
{
	int64_t now_ns = drive_now_ns(cost->drive);
	bool sorts = cost->host.most_sorted > 0;
	int status = 0;

	while (cost->has_next && has_place(cost) && issue_ns(cost) <= now_ns) {
		uint32_t number = host_take(&cost->host);
		struct host_request *entry = &cost->host.requests[number];

		entry->request = cost->next;
		entry->number = cost->totals.requests;
		entry->issue_ns = cost->closed ? now_ns : cost->next.arrival_ns;
		entry->sector = entry->own_sector = cost->next.sector;
		entry->sectors = entry->own_sectors = cost->next.sectors;
		if (!sorts || cost->next.op == DRIVE_OP_FLUSH) {
			status = give_to_drive(cost, number);
		} else if (!host_sort(&cost->host, number)) {
			host_release(&cost->host, number);
			break;
		}
		if (status)
			return status;
		if (cost->totals.requests == 0)
			cost->totals.first_ns = entry->issue_ns;
		cost->totals.requests++;
		cost->issued_ns = now_ns;
		cost->recorded_ns = cost->next.arrival_ns;
		cost->has_next = false;
		status = read_next(cost);
		if (status)
			return status;
	}
	while (sorts && cost->in_drive < cost->params.queue_depth) {
		uint32_t number = host_dispatch(&cost->host, now_ns);

		if (number == HOST_NONE)
			break;
		status = give_to_drive(cost, number);
		if (status)
			return status;
	}
	return 0;
}

/* Piled-up requests wait long: the sum stays at its most. */
static void add_ns(int64_t *sum_ns, int64_t ns)
{
	if (__builtin_add_overflow(*sum_ns, ns, sum_ns))
		*sum_ns = INT64_MAX;
}

static void add_service(struct totals *totals, const struct drive_service *service)
{
	if (service->by_head) {
		totals->seek_ns += service->seek_ns;
		totals->rotation_ns += service->rotation_ns;
		totals->transfer_ns += service->transfer_ns;
		totals->overhead_ns += service->overhead_ns;
		totals->seeks += service->seek_ns > 0;
	} else if (service->op == DRIVE_OP_FLUSH) {
		totals->flush_wait_ns += service->wait_ns;
	} else {
		totals->bus_ns += service->overhead_ns + service->transfer_ns;
	}
	if (service->op == DRIVE_OP_DESTAGE)
		totals->destages++;
	else if (service->op == DRIVE_OP_READ && !service->by_head)
		totals->read_hits++;
	else if (service->op == DRIVE_OP_WRITE && !service->by_head)
		totals->write_hits++;
}

static struct cost_row make_row(const struct drive_service *service)
{
	return (struct cost_row){
		.request = -1,
		.issue_ns = service->start_ns,
		.arrival_ns = service->arrival_ns,
		.start_ns = service->start_ns,
		.end_ns = service->end_ns,
		.overhead_ns = service->overhead_ns,
		.seek_ns = service->seek_ns,
		.rotation_ns = service->rotation_ns,
		.transfer_ns = service->transfer_ns,
		.wait_ns = service->wait_ns,
		.sector = service->sector,
		.sectors = service->sectors,
		.cylinder = service->cylinder,
		.queued = service->queued,
		.op = (uint8_t)service->op,
		.how = (uint8_t)service->how,
		.fua = service->fua,
		.by_head = service->by_head,
	};
}

static int write_row(const struct cost *cost, const struct cost_row *row)
{
	if (cost->rows && stream_write(cost->rows, cost->text, row) < 0)
		return complain(1, "rows", strerror(errno));
	return 0;
}

/* A request of the drive has ended, and with it all that the elevator had merged into it. */
static int end_request(struct cost *cost, const struct drive_service *service)
{
	struct totals *totals = &cost->totals;
	struct cost_row row = make_row(service);
	uint32_t number = (uint32_t)service->id;
	int status = 0;

	cost->in_drive--;
	while (number != HOST_NONE) {
		struct host_request *entry = &cost->host.requests[number];
		uint32_t merged = entry->merged;

		totals->reads += service->op == DRIVE_OP_READ;
		totals->writes += service->op == DRIVE_OP_WRITE;
		totals->flushes += service->op == DRIVE_OP_FLUSH;
		add_ns(&totals->response_ns, service->end_ns - entry->issue_ns);
		add_ns(&totals->drive_ns, service->end_ns - service->arrival_ns);
		row.request = (int64_t)entry->number;
		row.issue_ns = entry->issue_ns;
		row.sector = entry->own_sector;
		row.sectors = entry->own_sectors;
		status = write_row(cost, &row);
		host_release(&cost->host, number);
		if (status)
			return status;
		row.overhead_ns = row.seek_ns = row.rotation_ns = row.transfer_ns = row.wait_ns = 0;
		number = merged;
	}
	totals->end_ns = service->end_ns;
	return 0;
}

static int run(struct cost *cost)
{
	int status = read_next(cost);

	while (!status) {
		int64_t until_ns = INT64_MAX;
		struct drive_event event;
		struct cost_row row;

		status = feed(cost);
		if (status)
			break;
		if (!cost->has_next && cost->host.count == 0)
			return 0;
		/* one that has come already waits for another's end */
		if (cost->has_next && has_place(cost) && issue_ns(cost) > drive_now_ns(cost->drive))
			until_ns = issue_ns(cost);
		if (!drive_step(cost->drive, until_ns, &event))
			continue;
		if (event.kind == DRIVE_EVENT_DONE) {
			add_service(&cost->totals, &event.service);
			status = end_request(cost, &event.service);
		} else if (event.kind == DRIVE_EVENT_MEDIA_END &&
			   event.service.op == DRIVE_OP_DESTAGE) {
			add_service(&cost->totals, &event.service);
			row = make_row(&event.service);
			status = write_row(cost, &row);
		}
	}
	return status;
}

static int say(const struct cost *cost)
{
	const struct totals *totals = &cost->totals;
	int64_t busy_ns =
		totals->seek_ns + totals->rotation_ns + totals->transfer_ns + totals->overhead_ns;
	const struct {
		const char *name;
		int64_t value;
	} values[] = {
		{ "requests", (int64_t)totals->requests },
		{ "reads", (int64_t)totals->reads },
		{ "writes", (int64_t)totals->writes },
		{ "flushes", (int64_t)totals->flushes },
		{ "destages", (int64_t)totals->destages },
		{ "first_ns", totals->first_ns },
		{ "end_ns", totals->end_ns },
		{ "response_ns", totals->response_ns },
		{ "drive_ns", totals->drive_ns },
		{ "seek_ns", totals->seek_ns },
		{ "rotation_ns", totals->rotation_ns },
		{ "transfer_ns", totals->transfer_ns },
		{ "overhead_ns", totals->overhead_ns },
		{ "head_idle_ns", totals->end_ns - totals->first_ns - busy_ns },
		{ "bus_ns", totals->bus_ns },
		{ "flush_wait_ns", totals->flush_wait_ns },
		{ "seeks", (int64_t)totals->seeks },
		{ "read_hits", (int64_t)totals->read_hits },
		{ "write_hits", (int64_t)totals->write_hits },
		{ "dirty_bytes", (int64_t)drive_dirty_bytes(cost->drive) },
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		printf("%s\"%s\":%" PRId64, i ? "," : "{", values[i].name, values[i].value);
	puts("}");
	if (fflush(stdout) != 0)
		return complain(1, "standard output", strerror(errno));
	return 0;
}

static int read_params(struct cost *cost, const char *path)
{
	char error[DRIVE_ERROR_BYTES];
	FILE *file;
	int result;

	if (!path)
		return complain(2, "--params", "is missing: the file of a drive");
	file = fopen(path, "re");
	if (!file)
		return complain(2, path, strerror(errno));
	result = drive_params_read(file, &cost->params, error);
	fclose(file);
	return result < 0 ? complain(2, path, error) : 0;
}

static bool take_number(const char *word, uint64_t most, uint64_t *value)
{
	char *end;

	if (word[0] < '0' || word[0] > '9')
		return false;
	errno = 0;
	*value = strtoull(word, &end, 10);
	return !errno && *end == '\0' && *value <= most;
}

/* 0, or the exit status. */
static int read_options(struct cost *cost, int argc, char **argv, const char *paths[3],
			uint64_t numbers[4])
{
	static const struct option options[] = {
		{ "params", required_argument, NULL, 0 },
		{ "requests", required_argument, NULL, 1 },
		{ "rows", required_argument, NULL, 2 },
		{ "closed", required_argument, NULL, 3 },
		{ "elevator", required_argument, NULL, 4 },
		{ "merge", required_argument, NULL, 5 },
		{ "seed", required_argument, NULL, 6 },
		{ "text", no_argument, NULL, 7 },
		{ "gaps", no_argument, NULL, 8 },
		{ NULL, 0, NULL, 0 },
	};
	static const uint64_t most[4] = { HOST_MOST_REQUESTS, HOST_MOST_SORTED, DRIVE_MOST_SECTORS,
					  UINT64_MAX };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return 2;
		if (option < 3)
			paths[option] = optarg;
		else if (option == 7)
			cost->text = true;
		else if (option == 8)
			cost->keeps_gaps = true;
		else if (!take_number(optarg, most[option - 3], &numbers[option - 3]))
			return complain(2, options[option].name,
					"is no whole number, or too large");
	}
	if (optind < argc)
		return complain(2, argv[optind], "is no option");
	return 0;
}

/* Errors of writing that only show at the end. */
static int close_rows(const struct cost *cost)
{
	if (cost->rows && fclose(cost->rows) != 0)
		return complain(1, "rows", strerror(errno));
	return 0;
}

int main(int argc, char **argv)
{
	const char *paths[3] = { NULL };
	uint64_t numbers[4] = { 0 };
	struct cost *cost = calloc(1, sizeof(*cost));
	int status;

	if (!cost)
		return complain(1, "memory", strerror(errno));
	status = read_options(cost, argc, argv, paths, numbers);
	if (!status)
		status = read_params(cost, paths[0]);
	if (status)
		return status;
	cost->closed = (uint32_t)numbers[0];
	cost->requests = paths[1] ? fopen(paths[1], "re") : stdin;
	if (!cost->requests)
		return complain(1, paths[1], strerror(errno));
	cost->rows = paths[2] ? fopen(paths[2], "we") : NULL;
	if (paths[2] && !cost->rows)
		return complain(1, paths[2], strerror(errno));
	cost->drive = drive_new(&cost->params, DRIVE_MOST_REQUESTS, numbers[3]);
	if (!cost->drive || host_init(&cost->host, (uint32_t)numbers[1], (uint32_t)numbers[2]) < 0)
		return complain(1, "memory", strerror(errno));
	status = run(cost);
	if (close_rows(cost) && !status)
		status = 1;
	if (!status)
		status = say(cost);
	host_free(&cost->host);
	drive_free(cost->drive);
	free(cost);
	return status;
}
