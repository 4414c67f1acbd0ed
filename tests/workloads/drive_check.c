// SPDX-License-Identifier: BSD-2-Clause
/*
 * drive_check SEED REQUESTS < PARAMS
 *
 * Random requests, bursts, pauses and power cuts on a drive's model. A mirror of the cache, a flag a sector, follows from
 * the events alone; the program ends with 1 and a line where the model and the mirror differ. Last line: what was done.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/drive.h"
#include "model/params.h"

#define MOST_REQUESTS 64

#define CHECK(truth, ...)                                                   \
	do {                                                                \
		if (!(truth)) {                                             \
			fprintf(stderr, "line %d: %s: ", __LINE__, #truth); \
			fprintf(stderr, __VA_ARGS__);                       \
			fputc('\n', stderr);                                \
			exit(1);                                            \
		}                                                           \
	} while (0)

struct mirror_sector {
	bool is_dirty;
	int64_t taken_ns; /* the cache took it last */
	int64_t clean_ns; /* it came to the platter last */
	bool is_seen;
};

struct request {
	bool is_there;
	struct drive_request request;
};

static struct mirror_sector *mirror;
static struct request requests[MOST_REQUESTS];
static uint64_t sectors, next_id, random_state;
static int64_t head_free_ns, last_ns;
static uint32_t most_extents;
static uint64_t cache_bytes;
static uint64_t counts[4], hits[3], cuts;

static uint64_t draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

static void see_dirty(uint64_t sector, uint32_t count, void *argument)
{
	uint64_t *total = argument;

	CHECK(count > 0 && sector + count <= sectors, "extent %" PRIu64 "+%u", sector, count);
	*total += count;
	for (uint64_t i = sector; i < sector + count; i++)
		mirror[i].is_seen = true;
}

/* Sectors of a write through that is in the queue or under way: the model may have dropped them from the cache. */
static bool is_being_written(uint64_t sector)
{
	for (int i = 0; i < MOST_REQUESTS; i++) {
		const struct drive_request *request = &requests[i].request;

		if (requests[i].is_there && request->op == DRIVE_OP_WRITE &&
		    request->sector <= sector && sector < request->sector + request->sectors)
			return true;
	}
	return false;
}

static void compare_dirty(struct drive *drive)
{
	uint64_t total = 0;

	drive_dirty(drive, see_dirty, &total);
	for (uint64_t i = 0; i < sectors; i++) {
		if (!is_being_written(i))
			CHECK(mirror[i].is_dirty == mirror[i].is_seen, "sector %" PRIu64, i);
		mirror[i].is_seen = false;
	}
	CHECK(drive_dirty_bytes(drive) == total * 512, "%" PRIu64, total);
}

static void check_service(const struct drive_service *service)
{
	CHECK(service->overhead_ns >= 0 && service->seek_ns >= 0 && service->rotation_ns >= 0 &&
		      service->transfer_ns >= 0 && service->wait_ns >= 0,
	      "op %d", service->op);
	CHECK(service->start_ns + service->overhead_ns + service->seek_ns + service->rotation_ns +
			      service->transfer_ns + service->wait_ns ==
		      service->end_ns,
	      "op %d how %d", service->op, service->how);
	CHECK(service->arrival_ns <= service->start_ns, "op %d", service->op);
	if (!service->by_head)
		return;
	CHECK(service->start_ns >= head_free_ns, "the head is in two places at %" PRId64,
	      service->start_ns);
	head_free_ns = service->end_ns;
}

static void take_done(const struct drive_event *event)
{
	const struct drive_service *service = &event->service;
	struct request *request = NULL;

	for (int i = 0; i < MOST_REQUESTS; i++) {
		if (requests[i].is_there && requests[i].request.id == service->id)
			request = &requests[i];
	}
	CHECK(request, "request %" PRIu64 " is answered twice or was never made", service->id);
	CHECK(event->at_ns == service->end_ns, "%" PRId64, event->at_ns);
	CHECK(service->op == request->request.op &&
		      service->arrival_ns >= request->request.arrival_ns,
	      "request %" PRIu64, service->id);
	request->is_there = false;
	for (int i = 0; i < MOST_REQUESTS; i++)
		CHECK(!requests[i].is_there || requests[i].request.id > service->id ||
			      (service->op != DRIVE_OP_FLUSH &&
			       requests[i].request.op != DRIVE_OP_FLUSH),
		      "request %" PRIu64 " passes a flush", service->id);
	counts[service->op]++;
	hits[service->how]++;
	check_service(service);
	if (service->op == DRIVE_OP_WRITE) {
		CHECK(!service->fua || service->how == DRIVE_HOW_MEDIA, "FUA in the cache");
		for (uint64_t i = service->sector; i < service->sector + service->sectors; i++) {
			if (service->how != DRIVE_HOW_CACHE)
				continue;
			mirror[i].is_dirty = true;
			mirror[i].taken_ns = event->at_ns;
		}
	} else if (service->op == DRIVE_OP_FLUSH) {
		for (uint64_t i = 0; i < sectors; i++)
			CHECK(!mirror[i].is_dirty || mirror[i].taken_ns > service->start_ns,
			      "sector %" PRIu64 " was flushed and is dirty", i);
	} else if (service->how == DRIVE_HOW_CACHE) {
		for (uint64_t i = service->sector; i < service->sector + service->sectors; i++)
			CHECK(mirror[i].is_dirty || mirror[i].clean_ns >= service->start_ns,
			      "sector %" PRIu64 " was not in the cache", i);
	}
}

static void take_media(struct drive *drive, const struct drive_event *event)
{
	const struct drive_service *service = &event->service;

	CHECK(event->at_ns == service->end_ns, "%" PRId64, event->at_ns);
	if (service->op == DRIVE_OP_DESTAGE) {
		check_service(service);
		counts[DRIVE_OP_DESTAGE]++;
	}
	for (uint64_t i = service->sector; i < service->sector + service->sectors; i++) {
		if (service->op == DRIVE_OP_DESTAGE)
			CHECK(mirror[i].is_dirty, "sector %" PRIu64 " is destaged and was clean",
			      i);
		if (mirror[i].taken_ns > service->start_ns)
			continue;
		/* what a write through would cut in two stays dirty while all extents are taken */
		if (service->op == DRIVE_OP_WRITE && most_extents < 100 &&
		    drive_is_dirty(drive, i, 1))
			continue;
		mirror[i].is_dirty = false;
		mirror[i].clean_ns = event->at_ns;
		CHECK(!drive_is_dirty(drive, i, 1), "sector %" PRIu64, i);
	}
}

static void run_until(struct drive *drive, int64_t until_ns)
{
	struct drive_event event;

	while (drive_step(drive, until_ns, &event)) {
		CHECK(event.at_ns >= last_ns && event.at_ns <= until_ns, "%" PRId64, event.at_ns);
		CHECK(event.at_ns == drive_now_ns(drive), "%" PRId64, event.at_ns);
		last_ns = event.at_ns;
		/* what a write covers of the cache is counted when it begins; meanwhile it may be destaged */
		CHECK(drive_dirty_bytes(drive) * 2 <= cache_bytes * 3, "%" PRIu64 " dirty",
		      drive_dirty_bytes(drive));
		if (event.kind == DRIVE_EVENT_DONE)
			take_done(&event);
		else if (event.kind == DRIVE_EVENT_MEDIA_END)
			take_media(drive, &event);
		else
			CHECK(event.kind == DRIVE_EVENT_MEDIA_BEGIN &&
				      event.service.op != DRIVE_OP_READ &&
				      event.service.end_ns >= event.at_ns,
			      "kind %d", event.kind);
	}
	CHECK(drive_next_ns(drive) >= until_ns, "the next event was due");
}

static void submit(struct drive *drive, int64_t arrival_ns, uint64_t place)
{
	static const enum drive_op ops[] = { DRIVE_OP_READ,  DRIVE_OP_READ,  DRIVE_OP_READ,
					     DRIVE_OP_WRITE, DRIVE_OP_WRITE, DRIVE_OP_WRITE,
					     DRIVE_OP_WRITE, DRIVE_OP_FLUSH };
	struct drive_request request = { .id = ++next_id, .arrival_ns = arrival_ns };
	struct request *free_place = NULL;

	request.op = draw(16) ? ops[draw(7)] : DRIVE_OP_FLUSH;
	request.fua = request.op == DRIVE_OP_WRITE && draw(10) == 0;
	request.sectors = draw(20) ? 1 + (uint32_t)draw(32) : 1 + (uint32_t)draw(2000);
	if (request.sectors > sectors)
		request.sectors = (uint32_t)sectors;
	request.sector = (place + draw(draw(3) ? 200 : sectors)) % (sectors - request.sectors + 1);
	for (int i = 0; i < MOST_REQUESTS; i++) {
		if (!requests[i].is_there)
			free_place = &requests[i];
	}
	if (drive_submit(drive, &request) < 0) {
		CHECK(errno == EAGAIN && !free_place, "errno %d", errno);
		return;
	}
	CHECK(free_place, "more requests than it takes");
	*free_place = (struct request){ true, request };
}

static void cut_power(struct drive *drive)
{
	compare_dirty(drive);
	drive_reset(drive);
	for (uint64_t i = 0; i < sectors; i++)
		mirror[i].is_dirty = false;
	memset(requests, 0, sizeof(requests));
	head_free_ns = drive_now_ns(drive);
	CHECK(drive_requests(drive) == 0 && drive_dirty_bytes(drive) == 0, "after a power cut");
	cuts++;
}

static void check_refusals(struct drive *drive)
{
	const struct drive_request wrong[] = {
		{ .op = DRIVE_OP_READ, .sector = sectors, .sectors = 1 },
		{ .op = DRIVE_OP_WRITE, .sector = UINT64_MAX, .sectors = 8 },
		{ .op = DRIVE_OP_READ, .sectors = 0 },
		{ .op = DRIVE_OP_READ, .sectors = DRIVE_MOST_SECTORS + 1 },
		{ .op = DRIVE_OP_DESTAGE, .sectors = 1 },
		{ .op = (enum drive_op)77, .sectors = 1 },
		{ .op = DRIVE_OP_READ, .sectors = 1, .arrival_ns = INT64_MAX },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		CHECK(drive_submit(drive, &wrong[i]) == -1 && errno == (i < 2 ? ERANGE : EINVAL),
		      "%zu", i);
}

int main(int argc, char **argv)
{
	char error[DRIVE_ERROR_BYTES];
	struct drive_params params;
	struct drive *drive;
	int64_t now_ns = 0;
	uint64_t most, place = 0, seed;
	size_t allocated;

	if (argc != 3)
		return 2;
	seed = strtoull(argv[1], NULL, 10);
	random_state = seed * 2 + 1;
	most = strtoull(argv[2], NULL, 10);
	if (drive_params_read(stdin, &params, error) < 0) {
		fprintf(stderr, "%s\n", error);
		return 2;
	}
	drive = drive_new(&params, MOST_REQUESTS, seed);
	CHECK(drive, "errno %d", errno);
	sectors = drive_sectors(drive);
	most_extents = params.write_cache_extents;
	cache_bytes = params.write_cache_bytes;
	mirror = calloc(sectors, sizeof(*mirror));
	CHECK(mirror, "no memory");
	for (uint64_t i = 0; i < sectors; i++)
		mirror[i].taken_ns = -1;
	check_refusals(drive);
	allocated = mallinfo2().uordblks;
	while (next_id < most) {
		uint64_t burst = draw(4) ? 1 : 1 + draw(80);

		if (draw(8) == 0)
			place = draw(sectors);
		for (uint64_t i = 0; i < burst; i++)
			submit(drive, now_ns + (int64_t)draw(1000), place);
		now_ns += (int64_t)draw(draw(10) ? 10000000 : 1000000000);
		run_until(drive, now_ns);
		if (draw(100) == 0)
			compare_dirty(drive);
		if (draw(300) == 0)
			cut_power(drive);
	}
	run_until(drive, INT64_MAX);
	CHECK(drive_requests(drive) == 0 && drive_dirty_bytes(drive) == 0, "at rest");
	CHECK(mallinfo2().uordblks == allocated, "the model allocates");
	for (int i = 0; i < MOST_REQUESTS; i++)
		CHECK(!requests[i].is_there, "request %" PRIu64 " has no answer",
		      requests[i].request.id);
	printf("{\"reads\":%" PRIu64 ",\"writes\":%" PRIu64 ",\"flushes\":%" PRIu64
	       ",\"destages\":%" PRIu64 ",\"by_cache\":%" PRIu64 ",\"by_read_ahead\":%" PRIu64
	       ",\"cuts\":%" PRIu64 "}\n",
	       counts[0], counts[1], counts[2], counts[3], hits[1], hits[2], cuts);
	drive_free(drive);
	free(mirror);
	return 0;
}
