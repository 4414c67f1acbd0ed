// SPDX-License-Identifier: BSD-2-Clause
#include "cut.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "server.h"

/* splitmix64: the same seed, the same cut of the same cache. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t value = *state += 0x9e3779b97f4a7c15ULL;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
	value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
	return value ^ value >> 31;
}

/* How many sectors of an extent stay. */
static uint32_t sectors_kept(struct cut *cut, uint32_t sectors)
{
	if (cut->keeps == CUT_LOST)
		return 0;
	if (cut->keeps == CUT_ALL)
		return sectors;
	if (next_random(&cut->seed) & 1)
		return 0;
	if (cut->tears && next_random(&cut->seed) % 3 == 0)
		return (uint32_t)(next_random(&cut->seed) % (sectors + 1));
	return sectors;
}

/* The head wrote so many sectors until then. */
static uint32_t sectors_passed(struct service *service, int64_t at_ns)
{
	struct cut *cut = &service->cut;
	int64_t passed_ns = to_model_ns(&service->clock, at_ns) - cut->head_from_ns;

	if (cut->head_takes_ns <= 0)
		return (uint32_t)(next_random(&cut->seed) % (cut->head_sectors + 1));
	if (passed_ns <= 0)
		return 0;
	if (passed_ns >= cut->head_takes_ns)
		return cut->head_sectors;
	return (uint32_t)((double)passed_ns / (double)cut->head_takes_ns * cut->head_sectors);
}

static uint64_t sectors_at_head(const struct service *service)
{
	const struct pages *pages = &service->pages;
	uint64_t sectors = 0;

	for (uint32_t i = service->dirty.at_head.first; i != NO_PAGE; i = pages->of[i].next)
		sectors += (uint64_t)__builtin_popcount(pages->of[i].mask);
	return sectors;
}

static void cut_head(struct service *service, int64_t at_ns)
{
	struct cut *cut = &service->cut;
	uint32_t kept;

	if (!cut->head_writes)
		return;
	kept = cut->tears ? sectors_passed(service, at_ns) : sectors_kept(cut, cut->head_sectors);
	if (kept < cut->head_sectors && cut->tears)
		cut->torn_sector = (int64_t)(cut->head_sector + kept);
	cut->kept_bytes += (uint64_t)kept * SECTOR_BYTES;
	dirty_head_tears(&service->dirty, cut->head_sector, kept);
	cut->head_writes = false;
}

/* What does not stay is lost with the rest of the cache. */
static void cut_extent(uint64_t sector, uint32_t sectors, void *argument)
{
	struct service *service = argument;
	uint32_t kept = sectors_kept(&service->cut, sectors);

	if (kept)
		service->cut.kept_bytes += dirty_keep(&service->dirty, sector, kept) * SECTOR_BYTES;
}

void cut_power(struct service *service)
{
	struct cut *cut = &service->cut;
	int64_t at_ns;

	service->has_power = false;
	cut->cut_ns = now_ns();
	at_ns = cut->when == CUT_AT ? cut->at_ns : cut->cut_ns;
	cut->when = CUT_NEVER;
	cut->in_commit = false;
	cut->at_request = service->requests;
	cut->kept_bytes = 0;
	cut->torn_sector = -1;
	cut->dirty_bytes =
		(service->dirty.cached_sectors + sectors_at_head(service)) * SECTOR_BYTES;
	cut_head(service, at_ns);
	drive_dirty(service->drive, cut_extent, service);
	dirty_lose(&service->dirty);
	media_write(service);
	for (uint32_t tag = 0; tag < service->transport->tags; tag++) {
		if (service->slots[tag].is_used)
			service_fail(service, &service->slots[tag], EIO);
	}
	cut->is_news = true;
	if (eventfd_write(service->news, 1))
		return; /* the counter is full of unread news */
}

void cut_at_request(struct service *service, bool is_flush)
{
	struct cut *cut = &service->cut;
	bool is_the_flush = is_flush && service->flushes >= cut->after;

	if (!service->has_power)
		return;
	if (cut->when == CUT_AT_REQUEST && service->requests >= cut->after) {
		cut_power(service);
	} else if (cut->when == CUT_AT_FLUSH && is_the_flush) {
		cut_power(service);
	} else if (cut->when == CUT_IN_COMMIT && is_the_flush && !cut->in_commit) {
		cut->in_commit = true;
		cut->commit_sectors = service->dirty.cached_sectors / 2;
		if (!service->dirty.cached_sectors)
			cut_power(service); /* nothing to be in the middle of */
	}
}

void cut_in_commit(struct service *service)
{
	struct cut *cut = &service->cut;

	/* The extent in the middle is under the head: cut when the head is in its middle. */
	if (cut->when == CUT_IN_COMMIT && cut->in_commit &&
	    service->dirty.cached_sectors <= cut->commit_sectors) {
		cut->when = CUT_AT;
		cut->at_ns =
			to_real_ns(&service->clock, cut->head_from_ns + cut->head_takes_ns / 2);
	}
}
