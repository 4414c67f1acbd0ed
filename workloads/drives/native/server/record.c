// SPDX-License-Identifier: BSD-2-Clause
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROWS	     65536 /* 6 s of 10,000 requests/s */
#define ROWS_A_WRITE 1024

_Static_assert(sizeof(struct record_row) == 104, "the header says 104 bytes");

static const char HEADER[] =
	"{\"table\":\"disk_service\",\"record_bytes\":104,\"byte_order\":\"little\","
	"\"clock\":\"CLOCK_MONOTONIC\",\"fields\":["
	"{\"name\":\"arrival_ns\",\"offset\":0,\"bytes\":8,\"type\":\"i64\"},"
	"{\"name\":\"start_ns\",\"offset\":8,\"bytes\":8,\"type\":\"i64\"},"
	"{\"name\":\"end_ns\",\"offset\":16,\"bytes\":8,\"type\":\"i64\"},"
	"{\"name\":\"reply_ns\",\"offset\":24,\"bytes\":8,\"type\":\"i64\"},"
	"{\"name\":\"overhead_ns\",\"offset\":32,\"bytes\":8,\"type\":\"i64\"},"
	"{\"name\":\"seek_ns\",\"offset\":40,\"bytes\":8,\"type\":\"i64\"},"
	"{\"name\":\"rotation_ns\",\"offset\":48,\"bytes\":8,\"type\":\"i64\"},"
	"{\"name\":\"transfer_ns\",\"offset\":56,\"bytes\":8,\"type\":\"i64\"},"
	"{\"name\":\"wait_ns\",\"offset\":64,\"bytes\":8,\"type\":\"i64\"},"
	"{\"name\":\"sector\",\"offset\":72,\"bytes\":8,\"type\":\"u64\"},"
	"{\"name\":\"dev\",\"offset\":80,\"bytes\":4,\"type\":\"u32\"},"
	"{\"name\":\"sectors\",\"offset\":84,\"bytes\":4,\"type\":\"u32\"},"
	"{\"name\":\"cylinder\",\"offset\":88,\"bytes\":4,\"type\":\"u32\"},"
	"{\"name\":\"queued\",\"offset\":92,\"bytes\":4,\"type\":\"u32\"},"
	"{\"name\":\"op\",\"offset\":96,\"bytes\":1,\"type\":\"u8\",\"enum\":\"disk_op\"},"
	"{\"name\":\"how\",\"offset\":97,\"bytes\":1,\"type\":\"u8\",\"enum\":\"disk_how\"},"
	"{\"name\":\"fua\",\"offset\":98,\"bytes\":1,\"type\":\"u8\"}],"
	"\"enums\":{\"disk_op\":{\"0\":\"read\",\"1\":\"write\",\"2\":\"flush\",\"3\":\"destage\"},"
	"\"disk_how\":{\"0\":\"media\",\"1\":\"cache\",\"2\":\"read_ahead\"}}}";

static struct record_row ring[ROWS];
static atomic_bool is_ready[ROWS];
static uint64_t reserved; /* under the service's lock */
static atomic_uint_least64_t taken;
static atomic_uint_least64_t lost;
static uint64_t written;
static atomic_uint dev_of_rows;
static atomic_bool is_closed;
static int file = -1;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;

static int write_whole(int fd, const char *bytes, size_t count)
{
	while (count) {
		ssize_t wrote = write(fd, bytes, count);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return -1;
		bytes += wrote;
		count -= (size_t)wrote;
	}
	return 0;
}

static int write_header(int fd)
{
	struct {
		char magic[8];
		uint32_t json_bytes;
		uint32_t zero;
		char json[(sizeof(HEADER) - 1 + 7) / 8 * 8];
	} head = { .magic = { 'S', 'K', 'M', 'R', 'E', 'C', '0', '1' },
		   .json_bytes = sizeof(HEADER) - 1 };
	struct stat status;
	int failed = 0;

	memcpy(head.json, HEADER, sizeof(HEADER) - 1);
	if (flock(fd, LOCK_EX))
		return -1;
	if (fstat(fd, &status))
		failed = -1;
	else if (!status.st_size)
		failed = write_whole(fd, (const char *)&head, 16 + sizeof(head.json));
	if (flock(fd, LOCK_UN))
		return -1;
	return failed;
}

/* A disk that is full took a part of a row: it would shift all later ones. */
static void remove_part(void)
{
	struct stat status;
	off_t start = (off_t)(16 + (sizeof(HEADER) - 1 + 7) / 8 * 8);

	if (fstat(file, &status) || status.st_size <= start)
		return;
	if (ftruncate(file,
		      status.st_size - (status.st_size - start) % (off_t)sizeof(struct record_row)))
		return; /* the reader counts the rest as truncated */
}

static void write_ready(void)
{
	uint64_t from = atomic_load(&taken);

	for (;;) {
		uint64_t to = from;
		size_t index = from % ROWS;
		size_t bytes;

		while (to - from < ROWS_A_WRITE && index + (to - from) < ROWS &&
		       atomic_load_explicit(&is_ready[index + (to - from)], memory_order_acquire))
			to++;
		if (to == from)
			return;
		bytes = (size_t)(to - from) * sizeof(struct record_row);
		for (uint64_t i = from; i < to; i++)
			ring[i % ROWS].dev = atomic_load(&dev_of_rows);
		if (file >= 0 && write_whole(file, (const char *)&ring[index], bytes)) {
			remove_part();
			atomic_fetch_add(&lost, to - from);
		} else {
			written += to - from;
		}
		for (uint64_t i = from; i < to; i++)
			atomic_store(&is_ready[i % ROWS], false);
		from = to;
		atomic_store(&taken, from);
	}
}

static void *write_rows(void *unused)
{
	const struct timespec pause = { .tv_nsec = 100000000 };

	(void)unused;
	for (;;) {
		nanosleep(&pause, NULL);
		/* The kernel's number of the disk is known only once the disk is there. */
		if (!atomic_load(&dev_of_rows))
			continue;
		pthread_mutex_lock(&writing);
		write_ready();
		pthread_mutex_unlock(&writing);
	}
	return NULL;
}

int record_start(int fd)
{
	pthread_t thread;

	file = fd;
	if (fd >= 0) {
		int flags = fcntl(fd, F_GETFL);

		if (flags < 0 || fcntl(fd, F_SETFL, flags | O_APPEND) || write_header(fd))
			return -1;
	}
	errno = pthread_create(&thread, NULL, write_rows, NULL);
	return errno ? -1 : 0;
}

void record_set_dev(uint32_t dev)
{
	atomic_store(&dev_of_rows, dev);
}

struct record_row *record_reserve(void)
{
	struct record_row *row;

	if (file < 0)
		return NULL;
	if (atomic_load(&is_closed) || reserved - atomic_load(&taken) >= ROWS) {
		atomic_fetch_add(&lost, 1);
		return NULL;
	}
	row = &ring[reserved++ % ROWS];
	memset(row, 0, sizeof(*row));
	return row;
}

void record_ready(struct record_row *row)
{
	if (row)
		atomic_store_explicit(&is_ready[row - ring], true, memory_order_release);
}

void record_close(void)
{
	atomic_store(&is_closed, true);
}

void record_end(void)
{
	pthread_mutex_lock(&writing);
	write_ready();
	pthread_mutex_unlock(&writing);
}

uint64_t record_lost(void)
{
	return atomic_load(&lost);
}

uint64_t record_written(void)
{
	return written;
}
