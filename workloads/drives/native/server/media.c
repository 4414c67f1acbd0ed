// SPDX-License-Identifier: BSD-2-Clause
/*
 * The media file: sparse, as large as the disk. Reads start when a request arrives, while the model's head still travels;
 * writes follow when the model says that sectors are on the platter. Both in threads of their own, so that a slow file
 * makes single answers late, not the drive.
 *
 * The file is written through the page cache, which answers reads of it at memory's speed, but writeback of it begins
 * after each MiB, in a thread without priority, and no more than 64 MiB are ahead of it. So the file's dirty pages stay
 * few: a writer that the kernel holds back for too many dirty pages would wait for this server, and this server for the
 * same limit.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "punctual.h"
#include "server.h"

#define PAGES_A_WRITE	     256
#define PAGES_A_LOOK	     16 /* laid over in one go under the lock: about 10 us */
#define WRITEBACK_BYTES	     (1U << 20)
#define UNWRITTEN_MOST_BYTES (64U << 20)

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) && errno == EINTR)
		;
}

/* A part beyond what the file has is zeros. 0, or an errno. */
static int read_pages(int file, struct iovec *pieces, uint32_t count, off_t at)
{
	struct iovec left[MOST_PIECES];
	struct iovec *piece = left;

	memcpy(left, pieces, count * sizeof(*left));
	while (count) {
		ssize_t got = preadv(file, piece, (int)count, at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno;
		at += got;
		if (!got) {
			memset(piece->iov_base, 0, piece->iov_len);
			at += (off_t)piece->iov_len;
			piece++;
			count--;
			continue;
		}
		while (count && (size_t)got >= piece->iov_len) {
			got -= (ssize_t)piece->iov_len;
			piece++;
			count--;
		}
		if (count && got) {
			piece->iov_base = (char *)piece->iov_base + got;
			piece->iov_len -= (size_t)got;
		}
	}
	return 0;
}

/* With the lock held, which it lets go between some pages. */
static void lay_over(struct service *service, struct slot *slot)
{
	struct pages *pages = &service->pages;
	uint32_t looked = 0;

	for (uint32_t i = slot->pages.first; i != NO_PAGE && !slot->is_stale;
	     i = pages->of[i].next) {
		dirty_lay_over(&service->dirty, &pages->of[i], page_data(pages, i));
		if (++looked % PAGES_A_LOOK == 0) {
			pthread_mutex_unlock(&service->lock);
			pthread_mutex_lock(&service->lock);
		}
	}
}

static void read_slot(struct service *service, struct slot *slot)
{
	struct iovec whole[MOST_PIECES];
	uint32_t count = 0;
	int failed = 0;

	for (uint32_t i = slot->pages.first; i != NO_PAGE; i = service->pages.of[i].next) {
		whole[count].iov_base = page_data(&service->pages, i);
		whole[count++].iov_len = PAGE_BYTES;
	}
	slot->is_reading = true;
	do {
		slot->is_stale = false;
		pthread_mutex_unlock(&service->lock);
		failed = read_pages(service->media, whole, count,
				    (off_t)(slot->request.sector / PAGE_SECTORS * PAGE_BYTES));
		pthread_mutex_lock(&service->lock);
		if (!failed)
			lay_over(service, slot);
	} while (slot->is_stale && !failed);
	slot->is_reading = false;
	if (failed && !slot->error)
		slot->error = EIO;
}

static void *read_media(void *argument)
{
	struct service *service = argument;

	for (;;) {
		struct slot *slot;

		wait_for(&service->reads);
		pthread_mutex_lock(&service->lock);
		slot = &service->slots[service->to_read[service->to_read_first]];
		service->to_read_first = (service->to_read_first + 1) % TRANSPORT_MOST_TAGS;
		service->to_read_count--;
		if (!slot->error)
			read_slot(service, slot);
		slot->is_read_wanted = false;
		if (slot->is_done) {
			service->waited_for_media++;
			service_wake(service);
		}
		pthread_mutex_unlock(&service->lock);
	}
	return NULL;
}

/* 0, or an errno. */
static int write_run(int file, const char *const *data, uint32_t count, off_t at)
{
	struct iovec pieces[PAGES_A_WRITE];
	struct iovec *piece = pieces;

	for (uint32_t i = 0; i < count; i++)
		pieces[i] = (struct iovec){ .iov_base = (void *)(uintptr_t)data[i],
					    .iov_len = PAGE_BYTES };
	while (count) {
		ssize_t wrote = pwritev(file, piece, (int)count, at);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return wrote < 0 ? errno : EIO;
		at += wrote;
		while (count && (size_t)wrote >= piece->iov_len) {
			wrote -= (ssize_t)piece->iov_len;
			piece++;
			count--;
		}
		if (count && wrote) {
			piece->iov_base = (char *)piece->iov_base + wrote;
			piece->iov_len -= (size_t)wrote;
		}
	}
	return 0;
}

/* The sectors of a page that it does not hold whole, run by run. */
static int write_part(int file, const char *data, uint64_t number, uint8_t mask)
{
	for (int from = 0; from < PAGE_SECTORS;) {
		int to = from;

		while (to < PAGE_SECTORS && mask & 1U << to)
			to++;
		if (to > from) {
			size_t bytes = (size_t)(to - from) * SECTOR_BYTES;
			off_t at = (off_t)(number * PAGE_BYTES + (uint64_t)from * SECTOR_BYTES);
			ssize_t wrote = pwrite(file, data + from * SECTOR_BYTES, bytes, at);

			if (wrote < 0 && errno == EINTR)
				continue;
			if (wrote != (ssize_t)bytes)
				return wrote < 0 ? errno : EIO;
		}
		from = to + 1;
	}
	return 0;
}

/* The file has these pages: reads that were at the file meanwhile may have missed them in both places. */
static void forget_written(struct service *service, const uint32_t *batch, uint32_t count)
{
	uint64_t first = service->pages.of[batch[0]].number;
	uint64_t last = service->pages.of[batch[count - 1]].number;

	for (uint32_t tag = 0; tag < service->transport->tags; tag++) {
		struct slot *slot = &service->slots[tag];
		const struct request *request = &slot->request;

		if (slot->is_reading && request->sector / PAGE_SECTORS <= last &&
		    (request->sector + request->sectors - 1) / PAGE_SECTORS >= first)
			slot->is_stale = true;
	}
	for (uint32_t i = 0; i < count; i++)
		dirty_left(&service->dirty, batch[i]);
	if (service->waits_for_room)
		pthread_cond_signal(&service->has_room);
}

/* Errors of the disk below come with a later write, or with the next reading. */
static void *write_back(void *argument)
{
	struct service *service = argument;

	for (;;) {
		uint64_t bytes;

		wait_for(&service->writebacks);
		bytes = atomic_load(&service->unwritten_bytes);
		(void)sync_file_range(service->media, 0, 0,
				      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
					      SYNC_FILE_RANGE_WAIT_AFTER);
		atomic_fetch_sub(&service->unwritten_bytes, bytes);
	}
	return NULL;
}

/* Keeps the file's dirty pages few. */
static void limit_unwritten(struct service *service, uint64_t bytes)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	uint64_t before = atomic_fetch_add(&service->unwritten_bytes, bytes);

	if (before / WRITEBACK_BYTES != (before + bytes) / WRITEBACK_BYTES)
		sem_post(&service->writebacks);
	while (atomic_load(&service->unwritten_bytes) > UNWRITTEN_MOST_BYTES)
		nanosleep(&pause, NULL);
}

/* With the lock held. Writes the oldest pages that follow each other on the disk. */
static void write_batch(struct service *service)
{
	struct pages *pages = &service->pages;
	struct page_list *leaving = &service->dirty.leaving;
	uint32_t batch[PAGES_A_WRITE];
	const char *data[PAGES_A_WRITE];
	uint32_t count = 0;
	uint64_t number;
	uint8_t mask;
	int failed;

	do {
		batch[count] = list_pop(pages, leaving);
		data[count] = page_data(pages, batch[count]);
		count++;
	} while (count < PAGES_A_WRITE && leaving->first != NO_PAGE &&
		 pages->of[batch[count - 1]].mask == WHOLE_PAGE &&
		 pages->of[leaving->first].mask == WHOLE_PAGE &&
		 pages->of[leaving->first].number == pages->of[batch[count - 1]].number + 1);
	number = pages->of[batch[0]].number;
	mask = pages->of[batch[0]].mask;
	pthread_mutex_unlock(&service->lock);
	if (mask == WHOLE_PAGE)
		failed = write_run(service->media, data, count, (off_t)(number * PAGE_BYTES));
	else
		failed = write_part(service->media, data[0], number, mask);
	pthread_mutex_lock(&service->lock);
	if (failed) {
		/* The pages stay in memory for reads; no more are taken, as writes fail from now on. */
		if (!service->media_error)
			service->media_error = failed;
	} else {
		forget_written(service, batch, count);
	}
	atomic_fetch_add(&service->media_left, count);
	if (service->done_count)
		service_wake(service);
	pthread_mutex_unlock(&service->lock);
	if (!failed)
		limit_unwritten(service, (uint64_t)count * PAGE_BYTES);
	pthread_mutex_lock(&service->lock);
}

static void *write_media(void *argument)
{
	struct service *service = argument;

	for (;;) {
		wait_for(&service->writes);
		pthread_mutex_lock(&service->lock);
		while (service->dirty.leaving.first != NO_PAGE)
			write_batch(service);
		pthread_mutex_unlock(&service->lock);
	}
	return NULL;
}

int media_start(struct service *service, int priority)
{
	if (sem_init(&service->reads, 0, 0) || sem_init(&service->writes, 0, 0) ||
	    sem_init(&service->writebacks, 0, 0) || punctual_thread(write_back, service, 0))
		return -1;
	for (int i = 0; i < MEDIA_READERS; i++) {
		if (punctual_thread(read_media, service, priority))
			return -1;
	}
	return punctual_thread(write_media, service, priority);
}

void media_read(struct service *service, struct slot *slot)
{
	uint32_t last = (service->to_read_first + service->to_read_count) % TRANSPORT_MOST_TAGS;

	slot->is_read_wanted = true;
	service->to_read[last] = slot->request.tag;
	service->to_read_count++;
	sem_post(&service->reads);
}

void media_write(struct service *service)
{
	sem_post(&service->writes);
}

int media_drain(struct service *service)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	bool is_clean;
	int error;

	do {
		pthread_mutex_lock(&service->lock);
		is_clean = atomic_load(&service->media_left) >= service->dirty.left;
		error = service->media_error;
		pthread_mutex_unlock(&service->lock);
		if (!is_clean)
			nanosleep(&pause, NULL);
	} while (!is_clean);
	return error;
}
