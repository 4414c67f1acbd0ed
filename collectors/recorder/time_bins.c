// SPDX-License-Identifier: BSD-2-Clause
/* Time bins: cuts, waiting for programs that are still adding to a bin, and emptying; see time_bins.h. */
#include "time_bins.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "clock.h"

/*
 * A program that began in a bin may still be adding to it for a moment after the bin is over. Longer than any
 * store takes to be seen by another CPU, so that a turn not seen odd by then was not taken in time.
 */
#define BIN_GUARD_NS 1000000ULL
/* A program takes about a microsecond; a CPU stolen by a hypervisor may keep it much longer. */
#define PATIENCE_NS  200000ULL
/* From the announcement of a cut to its time: longer than the stores take to be seen by another CPU. */
#define LEAD_NS	     100000ULL
#define CUT_TRIES    5
#define MOST_BINS    8

/* All cuts, in order of time, and the sets of bins that are filled. Two threads use these, under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *cuts;
static size_t cut_count, cut_room;
static struct bins *filled[MOST_BINS];
static uint64_t length_ns;

void bins_set_length(uint64_t bin_ns)
{
	length_ns = bin_ns;
}

/* The number of the bin that this time is in, counting all cuts. */
static uint64_t number_of(uint64_t ns)
{
	size_t low = 0, high = cut_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (cuts[middle] <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return ns / length_ns + low;
}

/* Bin numbers grow by one at each multiple of length_ns, and at each cut. */
static uint64_t start_of(uint64_t bin)
{
	size_t low = 0, high = cut_count;
	uint64_t start;

	/* The number of cuts before the bin: the number of the bin that begins at cut i grows with i. */
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (cuts[middle] / length_ns + middle + 1 <= bin)
			low = middle + 1;
		else
			high = middle;
	}
	start = (bin - low) * length_ns;
	return low && cuts[low - 1] > start ? cuts[low - 1] : start;
}

uint64_t bins_start_ns(uint64_t bin)
{
	uint64_t start;

	pthread_mutex_lock(&lock);
	start = start_of(bin);
	pthread_mutex_unlock(&lock);
	return start;
}

uint64_t bins_length_ns(uint64_t bin)
{
	uint64_t length;

	pthread_mutex_lock(&lock);
	length = start_of(bin + 1) - start_of(bin);
	pthread_mutex_unlock(&lock);
	return length;
}

uint64_t bins_number(uint64_t ns)
{
	uint64_t bin;

	pthread_mutex_lock(&lock);
	bin = number_of(ns);
	pthread_mutex_unlock(&lock);
	return bin;
}

/* The last border of bins at or before end_ns that no cut comes before; start_ns is a border itself. */
static uint64_t last_border(uint64_t start_ns, uint64_t end_ns)
{
	uint64_t cut_after = number_of(start_ns) - start_ns / length_ns; /* cuts until then */
	uint64_t border = end_ns / length_ns * length_ns;

	return cut_after < cut_count && cuts[cut_after] < border ? cuts[cut_after] : border;
}

void bins_split(uint64_t begin_ns, uint64_t end_ns,
		void (*add)(uint64_t bin_ns, uint64_t bin_length_ns, uint64_t part_begin_ns,
			    uint64_t part_end_ns))
{
	while (begin_ns < end_ns) {
		uint64_t bin, start, stop, last;

		pthread_mutex_lock(&lock);
		bin = number_of(begin_ns);
		start = start_of(bin);
		stop = start_of(bin + 1);
		last = begin_ns == start ? last_border(start, end_ns) : 0;
		pthread_mutex_unlock(&lock);
		if (last > stop)
			stop = last;
		add(start, stop - start, begin_ns, stop < end_ns ? stop : end_ns);
		begin_ns = stop;
	}
}

void bins_begin(struct bins *bins)
{
	pthread_mutex_lock(&lock);
	*bins->drained_to = number_of(monotonic_ns());
	bins->cuts->count = cut_count;
	for (size_t i = cut_count > BIN_CUTS ? cut_count - BIN_CUTS : 0; i < cut_count; i++)
		bins->cuts->at_ns[i % BIN_CUTS] = cuts[i];
	for (int i = 0; i < MOST_BINS; i++) {
		if (!filled[i] || filled[i] == bins) {
			filled[i] = bins;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

void bins_end(struct bins *bins)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < MOST_BINS; i++)
		if (filled[i] == bins)
			filled[i] = NULL;
	pthread_mutex_unlock(&lock);
}

static bool has_room(uint64_t at_ns)
{
	uint64_t bin = number_of(at_ns) + 1; /* the bin that will begin at the cut */

	for (int i = 0; i < MOST_BINS; i++)
		/* One slot stays free for a recorder that is late. */
		if (filled[i] && bin - *filled[i]->drained_to >= filled[i]->slots - 1)
			return false;
	return true;
}

/* Tells the programs. The cut holds only if its time is still in the future when this returns. */
static bool announce(uint64_t at_ns)
{
	if (cut_count == cut_room) {
		size_t room = cut_room ? 2 * cut_room : 1024;
		uint64_t *more = realloc(cuts, room * sizeof(*cuts));

		if (!more)
			return false;
		cuts = more;
		cut_room = room;
	}
	cuts[cut_count++] = at_ns;
	for (int i = 0; i < MOST_BINS; i++) {
		if (!filled[i])
			continue;
		filled[i]->cuts->at_ns[(cut_count - 1) % BIN_CUTS] = at_ns;
		__atomic_store_n(&filled[i]->cuts->count, cut_count, __ATOMIC_RELEASE);
	}
	return true;
}

static uint64_t cut(uint64_t at_ns, bool *later)
{
	for (int i = 0; i < CUT_TRIES; i++) {
		uint64_t now = monotonic_ns();
		uint64_t time_ns = at_ns > now + LEAD_NS ? at_ns : now + LEAD_NS;

		if (cut_count && cuts[cut_count - 1] >= time_ns)
			return 0; /* cuts are announced in order of time */
		if (cut_count >= BIN_PENDING && cuts[cut_count - BIN_PENDING] > now)
			return 0;
		/* Until a cut far ahead, the bins before it will be emptied. */
		if (time_ns < now + length_ns && !has_room(time_ns)) {
			*later = true;
			return 0;
		}
		if (!announce(time_ns))
			return 0;
		if (monotonic_ns() < time_ns)
			return time_ns;
	}
	return 0;
}

uint64_t bins_cut(uint64_t at_ns, bool *later)
{
	uint64_t time_ns;

	pthread_mutex_lock(&lock);
	*later = false;
	time_ns = cut(at_ns, later);
	pthread_mutex_unlock(&lock);
	return time_ns;
}

/* True: every program that ran until now has finished adding. False: try again later. */
static bool bins_settled(const struct bin_epoch *epochs, int cpus)
{
	uint64_t deadline_ns = monotonic_ns() + PATIENCE_NS;

	for (int i = 0; i < cpus; i++) {
		uint64_t epoch = __atomic_load_n(&epochs[i].count, __ATOMIC_ACQUIRE);

		while ((epoch & 1) && __atomic_load_n(&epochs[i].count, __ATOMIC_ACQUIRE) == epoch)
			if (monotonic_ns() > deadline_ns)
				return false;
		while (__atomic_load_n(&epochs[i].inside, __ATOMIC_ACQUIRE))
			if (monotonic_ns() > deadline_ns)
				return false;
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return true;
}

void bins_drain(struct bins *bins, bool last)
{
	uint64_t now = monotonic_ns(), until;

	pthread_mutex_lock(&lock);
	until = last ? number_of(now) + 1 : number_of(now - BIN_GUARD_NS);
	pthread_mutex_unlock(&lock);
	for (uint64_t bin = *bins->drained_to; bin < until; bin++) {
		if (!bins_settled(bins->epochs, bins->cpus) && !last)
			return;
		bins->drain_bin(bin);
		__atomic_store_n(bins->drained_to, bin + 1, __ATOMIC_RELEASE);
	}
}

bool bins_are_drained(uint64_t ns)
{
	bool drained = true;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < MOST_BINS; i++)
		drained = drained && (!filled[i] || *filled[i]->drained_to >= number_of(ns));
	pthread_mutex_unlock(&lock);
	return drained;
}

bool bins_take(int map_fd, uint64_t bin, void *keys, void *sums, uint32_t most,
	       void (*take_sums)(uint64_t bin, uint32_t count))
{
	uint32_t place = 0;
	int err = 0;

	for (bool first = true; !err; first = false) {
		uint32_t count = most;

		if (bpf_map_lookup_and_delete_batch(map_fd, first ? NULL : &place, &place, keys,
						    sums, &count, NULL))
			err = errno;
		if (err && err != ENOENT) /* ENOENT: that was all */
			return false;
		if (count)
			take_sums(bin, count);
	}
	return true;
}
