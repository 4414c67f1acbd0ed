// SPDX-License-Identifier: BSD-2-Clause
#include "service.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "punctual.h"
#include "server.h"

/* Pages that requests leave: the head parts a cached page of which it takes some sectors. */
#define PAGES_KEPT	 64
#define QUIET_STEPS_MOST 1000
/* Spinning is at most a twentieth of the time: the CPU is the workload's. */
#define SPIN_WINDOW_NS	 100000000
#define SPIN_MOST_NS	 (SPIN_WINDOW_NS / 20)
#define LEAD_MOST_NS	 60000.0
#define LARGE_BYTES	 65536
#define WAKE_STEP_NS	 500.0
#define WAKE_MOST_NS	 60000.0

void service_wake(struct service *service)
{
	atomic_fetch_add(&service->wake, 1);
	if (atomic_load(&service->is_asleep)) {
		atomic_store(&service->woken_ns, now_ns());
		syscall(SYS_futex, &service->wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
}

static uint32_t bytes_of(const struct request *request)
{
	return request->sectors * SECTOR_BYTES;
}

static int64_t wakes_out_ns(const struct service *service)
{
	return (int64_t)(service->wake_ns * service->transport->wakes_out);
}

/* An answer is given so long before it is due. */
static int64_t lead_ns(const struct service *service, uint32_t bytes)
{
	return (int64_t)(service->answer_ns + service->answer_ns_byte * bytes) +
	       wakes_out_ns(service);
}

/* Answers of reads only carry bytes. */
static uint32_t answered_bytes(const struct request *request)
{
	return request->op == DRIVE_OP_READ ? bytes_of(request) : 0;
}

static void find_largest_read(struct service *service)
{
	service->largest_read = 0;
	for (uint32_t tag = 0; tag < service->transport->tags; tag++) {
		const struct slot *slot = &service->slots[tag];

		if (slot->is_with_model && answered_bytes(&slot->request) > service->largest_read)
			service->largest_read = answered_bytes(&slot->request);
	}
}

static void put_done(struct service *service, struct slot *slot)
{
	slot->is_done = true;
	service->done[service->done_count++] = slot->request.tag;
	if (slot->is_with_model) {
		slot->is_with_model = false;
		if (answered_bytes(&slot->request) == service->largest_read)
			find_largest_read(service);
	}
}

void service_fail(struct service *service, struct slot *slot, int error)
{
	if (slot->is_done)
		return; /* what the drive did before counts */
	slot->error = error;
	slot->answer_at_ns = 0;
	put_done(service, slot);
}

static struct record_row *make_row(const struct service *service,
				   const struct drive_service *served, bool fua)
{
	const struct model_clock *clock = &service->clock;
	struct record_row *row = record_reserve();

	if (!row)
		return NULL;
	row->arrival_ns = served->op == DRIVE_OP_DESTAGE ? 0
							 : to_real_ns(clock, served->arrival_ns);
	row->start_ns = to_real_ns(clock, served->start_ns);
	row->end_ns = to_real_ns(clock, served->end_ns);
	row->overhead_ns = (int64_t)((double)served->overhead_ns / clock->scale);
	row->seek_ns = (int64_t)((double)served->seek_ns / clock->scale);
	row->rotation_ns = (int64_t)((double)served->rotation_ns / clock->scale);
	row->transfer_ns = (int64_t)((double)served->transfer_ns / clock->scale);
	row->wait_ns = (int64_t)((double)served->wait_ns / clock->scale);
	row->sector = served->sector;
	row->sectors = served->sectors;
	row->cylinder = served->cylinder;
	row->queued = served->queued;
	row->op = (uint8_t)served->op;
	row->how = (uint8_t)served->how;
	row->fua = fua;
	return row;
}

static struct slot *slot_of(struct service *service, const struct drive_service *served)
{
	struct slot *slot = served->id < service->transport->tags ? &service->slots[served->id]
								  : NULL;

	return slot && slot->is_with_model ? slot : NULL;
}

static void head_begins(struct service *service, const struct drive_event *event)
{
	const struct drive_service *served = &event->service;
	struct slot *slot = served->op == DRIVE_OP_WRITE ? slot_of(service, served) : NULL;

	service->cut.head_writes = true;
	service->cut.head_sector = served->sector;
	service->cut.head_sectors = served->sectors;
	service->cut.head_from_ns = event->at_ns;
	service->cut.head_takes_ns = served->end_ns - event->at_ns;
	if (slot)
		dirty_head_takes_pages(&service->dirty, &slot->pages);
	else
		dirty_head_takes(&service->dirty, served->sector, served->sectors);
}

static void head_ends(struct service *service)
{
	service->cut.head_writes = false;
	dirty_head_done(&service->dirty);
	media_write(service);
}

static void request_ends(struct service *service, const struct drive_event *event)
{
	const struct drive_service *served = &event->service;
	struct slot *slot = slot_of(service, served);

	if (!slot)
		return;
	if (served->op == DRIVE_OP_WRITE && served->how == DRIVE_HOW_CACHE) {
		dirty_cache(&service->dirty, &slot->pages);
	} else if (served->op == DRIVE_OP_WRITE) {
		/* On the platter; the model may say so before or after it says that the request ended. */
		dirty_head_takes_pages(&service->dirty, &slot->pages);
		head_ends(service);
	}
	/* A promise: kept even if this server dies with the answer. */
	if (served->op == DRIVE_OP_FLUSH || served->how == DRIVE_HOW_MEDIA)
		slot->gate = served->op == DRIVE_OP_READ ? 0 : service->dirty.left;
	slot->due_ns = to_real_ns(&service->clock, event->at_ns);
	slot->answer_at_ns = slot->due_ns - lead_ns(service, answered_bytes(&slot->request));
	slot->row = make_row(service, served, slot->request.fua);
	put_done(service, slot);
}

/* When the model has to be stepped next: before its next event is due, by the lead of the largest answer. */
static int64_t step_at_ns(const struct service *service)
{
	int64_t next = service->has_power ? drive_next_ns(service->drive) : INT64_MAX;

	if (next == INT64_MAX)
		return next;
	return to_real_ns(&service->clock, next) - lead_ns(service, service->largest_read);
}

/* Whether a cut comes before the model's next event, which then never comes; cuts if its moment is there. */
static bool is_cut_first(struct service *service, int64_t now)
{
	int64_t at;

	cut_with_others(service);
	at = service->cut.at_ns;
	if (service->cut.when != CUT_AT ||
	    at > to_real_ns(&service->clock, drive_next_ns(service->drive)))
		return false;
	if (at <= now)
		cut_power(service);
	return true;
}

/* With the lock held. Steps the model through what is due. */
static void advance(struct service *service)
{
	int64_t now = now_ns();
	struct drive_event event;
	int quiet = 0;

	while (service->has_power && !is_cut_first(service, now) && step_at_ns(service) <= now) {
		/* Work that nobody sees gives no event. A model that stood still would hold the lock for ever. */
		if (!drive_step(service->drive, drive_next_ns(service->drive), &event)) {
			if (++quiet == QUIET_STEPS_MOST)
				return;
			continue;
		}
		quiet = 0;
		switch (event.kind) {
		case DRIVE_EVENT_DONE:
			request_ends(service, &event);
			break;
		case DRIVE_EVENT_MEDIA_BEGIN:
			head_begins(service, &event);
			cut_in_commit(service);
			break;
		case DRIVE_EVENT_MEDIA_END:
			head_ends(service);
			if (event.service.op == DRIVE_OP_DESTAGE)
				record_ready(make_row(service, &event.service, false));
			break;
		case DRIVE_EVENT_NONE:
			break;
		}
	}
}

/* Whether nothing but the time keeps the answer back. */
static bool is_answerable(const struct service *service, const struct slot *slot)
{
	return !slot->is_read_wanted && slot->gate <= atomic_load(&service->media_left);
}

/* Learns how long an answer takes, of which the host's part is the most: it goes on inside the call. */
static void calibrate(struct service *service, int64_t took_ns, uint32_t bytes)
{
	double took = (double)took_ns;

	if (took > LEAD_MOST_NS && bytes < LARGE_BYTES)
		return; /* a stolen CPU, no answer */
	if (bytes <= PAGE_BYTES)
		service->answer_ns += (took - service->answer_ns) / 32;
	else if (bytes >= LARGE_BYTES && took > service->answer_ns && took < 1e6)
		service->answer_ns_byte +=
			((took - service->answer_ns) / bytes - service->answer_ns_byte) / 32;
}

/* With the lock held, which it lets go meanwhile: answers done[at], which is answerable. */
static void answer(struct service *service, uint32_t at)
{
	struct slot *slot = &service->slots[service->done[at]];
	struct request request = slot->request;
	struct page_list pages = slot->pages;
	struct record_row *row = slot->row;
	int64_t due = slot->due_ns;
	int64_t wakes_out = wakes_out_ns(service);
	int error = slot->error;
	bool has_data = request.op == DRIVE_OP_READ && !error;
	int64_t began, ended, reply;

	if (!error && request.op != DRIVE_OP_READ)
		error = service->media_error;
	service->done_count--;
	memmove(&service->done[at], &service->done[at + 1],
		(service->done_count - at) * sizeof(*service->done));
	/* The tag may come back with the next request as soon as the transport has answered. */
	slot->is_used = false;
	list_empty(&slot->pages);
	service->in_flight--;
	pthread_mutex_unlock(&service->lock);
	began = now_ns();
	service->transport->answer(service->transport, request.tag, error,
				   has_data ? slot->pieces : NULL,
				   has_data ? (int)slot->piece_count : 0);
	ended = now_ns();
	/* The host has it once its CPU and thread are awake: late is what the host sees as late. */
	reply = ended + wakes_out;
	if (row) {
		row->reply_ns = reply;
		record_ready(row);
	}
	pthread_mutex_lock(&service->lock);
	if (due) {
		lateness_add(&service->lateness, reply - due);
		calibrate(service, ended - began, answered_bytes(&request));
	}
	pages_give_all(&service->pages, &pages);
	if (service->waits_for_room)
		pthread_cond_signal(&service->has_room);
}

/* With the lock held. Gives the answers whose time has come. Returns when the next one's time comes. */
static int64_t answer_due(struct service *service)
{
	for (;;) {
		int64_t next = INT64_MAX;
		int64_t now = now_ns();
		uint32_t at;

		for (at = 0; at < service->done_count; at++) {
			const struct slot *slot = &service->slots[service->done[at]];

			if (!is_answerable(service, slot))
				continue;
			if (slot->answer_at_ns <= now)
				break;
			if (slot->answer_at_ns < next)
				next = slot->answer_at_ns;
		}
		if (at == service->done_count)
			return next;
		answer(service, at);
	}
}

static void spin_until(struct service *service, int64_t until, unsigned int seen)
{
	int64_t from = now_ns();
	int64_t now = from;

	if (from - service->spin_window_ns > SPIN_WINDOW_NS) {
		service->spin_window_ns = from;
		service->spun_ns = 0;
	}
	while (now < until && atomic_load_explicit(&service->wake, memory_order_relaxed) == seen) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("yield");
#endif
		now = now_ns();
	}
	service->spun_ns += now - from;
}

/* A step towards each sample ends at the median, whatever a stolen CPU does. Only the service thread writes it. */
static void learn_wake(struct service *service, int64_t took_ns)
{
	if ((double)took_ns > service->wake_ns && service->wake_ns < WAKE_MOST_NS)
		service->wake_ns += WAKE_STEP_NS;
	else if ((double)took_ns < service->wake_ns && service->wake_ns > WAKE_STEP_NS)
		service->wake_ns -= WAKE_STEP_NS;
}

/* Sleeps until the moment, or until someone wakes it; the last piece it spins, where a CPU can be spared. */
static void sleep_until(struct service *service, int64_t until, unsigned int seen)
{
	int64_t now = now_ns();
	int64_t spin = service->spun_ns < SPIN_MOST_NS ||
				       now - service->spin_window_ns > SPIN_WINDOW_NS
			       ? service->spin_ns
			       : 0;
	int64_t sleep_to = until == INT64_MAX ? INT64_MAX : until - spin;

	if (sleep_to > now) {
		struct timespec at = { .tv_sec = sleep_to / NS_PER_S,
				       .tv_nsec = sleep_to % NS_PER_S };

		atomic_store(&service->is_asleep, true);
		if (!syscall(SYS_futex, &service->wake, FUTEX_WAIT_BITSET_PRIVATE, seen,
			     sleep_to == INT64_MAX ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY))
			learn_wake(service, now_ns() - atomic_load(&service->woken_ns));
		atomic_store(&service->is_asleep, false);
	}
	if (spin && until != INT64_MAX)
		spin_until(service, until, seen);
}

static void *serve(void *argument)
{
	struct service *service = argument;

	pthread_mutex_lock(&service->lock);
	for (;;) {
		unsigned int seen = atomic_load(&service->wake);
		int64_t until;

		advance(service);
		until = answer_due(service);
		if (step_at_ns(service) < until)
			until = step_at_ns(service);
		if (service->has_power && service->cut.when == CUT_AT && service->cut.at_ns < until)
			until = service->cut.at_ns;
		service->sleeps_until_ns = until;
		pthread_mutex_unlock(&service->lock);
		sleep_until(service, until, seen);
		pthread_mutex_lock(&service->lock);
		service->sleeps_until_ns = 0;
	}
	return NULL;
}

int service_start(struct service *service, int priority)
{
	return punctual_thread(serve, service, priority);
}

/* Takes pages for the request's data, and copies that of a write. Without the lock. */
static void take_data(struct service *service, struct slot *slot, const struct request *request)
{
	uint32_t needed = pages_needed(request->sector, request->sectors);
	const char *from = request->data;

	pthread_mutex_lock(&service->lock);
	if (service->pages.free.count < needed + PAGES_KEPT)
		service->waited_for_room++;
	while (service->pages.free.count < needed + PAGES_KEPT) {
		service->waits_for_room = true;
		pthread_cond_wait(&service->has_room, &service->lock);
	}
	service->waits_for_room = false;
	pages_take_for(&service->pages, &slot->pages, request->sector, request->sectors);
	pthread_mutex_unlock(&service->lock);

	slot->piece_count = 0;
	for (uint32_t i = slot->pages.first; i != NO_PAGE; i = service->pages.of[i].next) {
		const struct page *page = &service->pages.of[i];
		size_t skip = (size_t)__builtin_ctz(page->mask) * SECTOR_BYTES;
		size_t bytes = (size_t)__builtin_popcount(page->mask) * SECTOR_BYTES;
		struct iovec *piece = &slot->pieces[slot->piece_count++];

		piece->iov_base = (char *)page_data(&service->pages, i) + skip;
		piece->iov_len = bytes;
		if (request->op == DRIVE_OP_WRITE) {
			memcpy(piece->iov_base, from, bytes);
			from += bytes;
		}
	}
}

static int submit_to_model(struct service *service, struct slot *slot)
{
	const struct request *request = &slot->request;
	int64_t way_in = service->transport->way_in_ns +
			 (int64_t)(service->wake_ns * service->transport->wakes_in);
	struct drive_request modelled = {
		.id = request->tag,
		.op = request->op,
		.fua = request->fua,
		.sector = request->sector,
		.sectors = request->sectors,
	};

	/* A write's data are copied on their way in, as a read's are on their way out. */
	if (request->op == DRIVE_OP_WRITE)
		way_in += (int64_t)(service->answer_ns_byte * bytes_of(request));
	modelled.arrival_ns = to_model_ns(&service->clock, request->arrival_ns - way_in);
	if (drive_submit(service->drive, &modelled))
		return EIO;
	slot->is_with_model = true;
	if (answered_bytes(request) > service->largest_read)
		service->largest_read = answered_bytes(request);
	return 0;
}

void service_submit(struct service *service, const struct request *request)
{
	struct slot *slot = &service->slots[request->tag];
	int error = 0;

	take_data(service, slot, request);
	pthread_mutex_lock(&service->lock);
	slot->request = *request;
	slot->request.data = NULL;
	slot->is_used = true;
	slot->is_with_model = false;
	slot->is_done = false;
	slot->is_read_wanted = false;
	slot->error = 0;
	slot->gate = 0;
	slot->due_ns = 0;
	slot->row = NULL;
	service->in_flight++;
	service->requests++;
	service->flushes += request->op == DRIVE_OP_FLUSH;
	/* What was due before this request came is not decided by it. */
	advance(service);
	cut_at_request(service, request->op == DRIVE_OP_FLUSH);
	if (slot->is_done) {
		service_wake(service); /* a cut failed it */
	} else {
		if (!service->has_power)
			error = EIO;
		else if (request->op != DRIVE_OP_READ)
			error = service->media_error;
		if (!error)
			error = submit_to_model(service, slot);
		if (error)
			service_fail(service, slot, error);
		else if (request->op == DRIVE_OP_READ)
			media_read(service, slot);
		/* The model turns to it now, and only then knows when it is due. */
		advance(service);
		if (error || service->done_count || step_at_ns(service) < service->sleeps_until_ns)
			service_wake(service);
	}
	pthread_mutex_unlock(&service->lock);
}
