// SPDX-License-Identifier: BSD-2-Clause
#include "host.h"

#include <stdlib.h>
#include <string.h>

/* The defaults of Linux' mq-deadline. */
#define BATCH	       16
#define WRITES_STARVED 2
static const int64_t expire_ns[2] = { 500000000, 5000000000 };

int host_init(struct host *host, uint32_t most_sorted, uint32_t most_merged)
{
	*host = (struct host){ .most_sorted = most_sorted, .most_merged = most_merged };
	host->requests = calloc(HOST_MOST_REQUESTS, sizeof(*host->requests));
	if (!host->requests)
		return -1;
	for (uint32_t i = 0; i < HOST_MOST_REQUESTS; i++)
		host->requests[i].newer = i + 1 < HOST_MOST_REQUESTS ? i + 1 : HOST_NONE;
	for (int i = 0; i < 2; i++)
		host->sorted[i].oldest = host->sorted[i].newest = HOST_NONE;
	return 0;
}

void host_free(struct host *host)
{
	free(host->requests);
}

uint32_t host_take(struct host *host)
{
	uint32_t number = host->free;

	if (number == HOST_NONE)
		return HOST_NONE;
	host->free = host->requests[number].newer;
	host->count++;
	host->requests[number] = (struct host_request){ .merged = HOST_NONE };
	return number;
}

void host_release(struct host *host, uint32_t number)
{
	host->requests[number].newer = host->free;
	host->free = number;
	host->count--;
}

/* The first request of the direction that begins at the sector or behind it. */
static uint32_t find(const struct host *host, const struct sorted *sorted, uint64_t sector)
{
	uint32_t low = 0, high = sorted->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (host->requests[sorted->requests[middle]].sector < sector)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Merges the request into the one that ends where it begins, or that begins where it ends. */
static bool merge(struct host *host, const struct sorted *sorted, uint32_t at, uint32_t number)
{
	struct host_request *request = &host->requests[number];

	for (uint32_t i = at ? at - 1 : at; i <= at && i < sorted->count; i++) {
		struct host_request *into = &host->requests[sorted->requests[i]];
		bool behind = into->sector + into->sectors == request->sector;

		if (into->sectors + request->sectors > host->most_merged || into->request.fua ||
		    request->request.fua ||
		    (!behind && request->sector + request->sectors != into->sector))
			continue;
		if (!behind)
			into->sector = request->sector;
		into->sectors += request->sectors;
		request->merged = into->merged;
		into->merged = number;
		return true;
	}
	return false;
}

bool host_sort(struct host *host, uint32_t number)
{
	struct host_request *request = &host->requests[number];
	struct sorted *sorted = &host->sorted[request->request.op];
	uint32_t at = find(host, sorted, request->sector);

	if (merge(host, sorted, at, number))
		return true;
	if (host->sorted[0].count + host->sorted[1].count >= host->most_sorted)
		return false;
	memmove(&sorted->requests[at + 1], &sorted->requests[at],
		(sorted->count - at) * sizeof(sorted->requests[0]));
	sorted->requests[at] = number;
	sorted->count++;
	request->older = sorted->newest;
	request->newer = HOST_NONE;
	if (sorted->newest == HOST_NONE)
		sorted->oldest = number;
	else
		host->requests[sorted->newest].newer = number;
	sorted->newest = number;
	return true;
}

static uint32_t take_out(struct host *host, struct sorted *sorted, uint32_t at)
{
	uint32_t number = sorted->requests[at];
	struct host_request *request = &host->requests[number];

	sorted->count--;
	memmove(&sorted->requests[at], &sorted->requests[at + 1],
		(sorted->count - at) * sizeof(sorted->requests[0]));
	if (request->older == HOST_NONE)
		sorted->oldest = request->newer;
	else
		host->requests[request->older].newer = request->newer;
	if (request->newer == HOST_NONE)
		sorted->newest = request->older;
	else
		host->requests[request->newer].older = request->older;
	sorted->position = request->sector + request->sectors;
	return number;
}

/* Where the request stands among those that begin at the same sector. */
static uint32_t place_of(const struct host *host, const struct sorted *sorted, uint32_t number)
{
	uint32_t at = find(host, sorted, host->requests[number].sector);

	while (sorted->requests[at] != number)
		at++;
	return at;
}

uint32_t host_dispatch(struct host *host, int64_t now_ns)
{
	struct sorted *reads = &host->sorted[DRIVE_OP_READ],
		      *writes = &host->sorted[DRIVE_OP_WRITE];
	struct sorted *sorted = &host->sorted[host->direction];
	uint32_t at;

	if (!reads->count && !writes->count)
		return HOST_NONE;
	if (host->batched < BATCH && sorted->count) {
		at = find(host, sorted, sorted->position);
		if (host->batched && at < sorted->count) {
			host->batched++;
			return take_out(host, sorted, at);
		}
	}
	if (!reads->count || (writes->count && host->starved++ >= WRITES_STARVED)) {
		host->direction = DRIVE_OP_WRITE;
		host->starved = 0;
	} else {
		host->direction = DRIVE_OP_READ;
	}
	sorted = &host->sorted[host->direction];
	host->batched = 1;
	at = find(host, sorted, sorted->position);
	/* at the end of the positions, or with one that is too old, the oldest is next */
	if (at == sorted->count ||
	    now_ns - host->requests[sorted->oldest].issue_ns >= expire_ns[host->direction])
		at = place_of(host, sorted, sorted->oldest);
	return take_out(host, sorted, at);
}
