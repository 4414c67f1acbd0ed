// SPDX-License-Identifier: BSD-2-Clause
/* The streams as one in order of time: a binary heap of streams. */
#include "events.h"

#include <errno.h>
#include <stdlib.h>

/* Streams lie in one array, so an earlier file has the lower address. */
static bool before(const struct stream *a, const struct stream *b)
{
	uint64_t left = a->events[a->next].time, right = b->events[b->next].time;

	return left != right ? left < right : a < b;
}

static void sift_down(struct merge *merge, size_t at)
{
	struct stream *moving = merge->heap[at];

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= merge->count)
			break;
		if (child + 1 < merge->count && before(merge->heap[child + 1], merge->heap[child]))
			child++;
		if (!before(merge->heap[child], moving))
			break;
		merge->heap[at] = merge->heap[child];
		at = child;
	}
	merge->heap[at] = moving;
}

int merge_start(struct merge *merge, struct stream *streams, size_t count)
{
	merge->heap = calloc(count ? count : 1, sizeof(*merge->heap));
	merge->count = 0;
	if (!merge->heap)
		return -1;
	for (size_t i = 0; i < count; i++) {
		if (stream_peek(&streams[i]))
			merge->heap[merge->count++] = &streams[i];
		else if (errno)
			return -1;
	}
	for (size_t i = merge->count / 2; i-- > 0;)
		sift_down(merge, i);
	return 0;
}

struct event *merge_next(struct merge *merge)
{
	struct stream *first;

	errno = 0;
	if (!merge->count)
		return NULL;
	first = merge->heap[0];
	/* The event given out last is done with only now: looking further may move it. */
	if (first->taken) {
		first->taken = false;
		first->next++;
		if (!stream_peek(first)) {
			if (errno)
				return NULL;
			merge->heap[0] = merge->heap[--merge->count];
			if (!merge->count)
				return NULL;
		}
		if (merge->count > 1)
			sift_down(merge, 0);
		first = merge->heap[0];
	}
	first->taken = true;
	return &first->events[first->next];
}
