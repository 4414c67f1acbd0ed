// SPDX-License-Identifier: BSD-2-Clause
/*
 * One table on disk: a header that describes the record, then packed blocks of records. This is the only writer of such
 * headers in C.
 *
 *   "SKMREC02", u32 length of the JSON, u32 zero, JSON, zeros to a multiple of 8,
 *   blocks to the end: u32 packed_bytes, u32 raw_bytes, a zstd frame of whole records
 *
 * Rows are gathered in memory until they fill a block. All files share one context and one buffer of zstd, and one lock:
 * the thread of borders.c writes rows too.
 */
#include "rec_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "collector.h"
#include "options.h"
#include "rec_layout.h"
#include "room.h"

#define BLOCK_HEAD_BYTES (2 * sizeof(uint32_t))
#define LEVEL		 1 /* of zstd: level 3 saves 5 % more */

struct rec_file {
	struct rec_file *next;
	char name[64];
	char *header;
	size_t header_bytes;
	bool stays;
	int fd, next_fd; /* next_fd: of the next segment, while files are moved */
	size_t record_bytes;
	off_t end;  /* always on a block */
	char *rows; /* gathered, to be packed */
	size_t count, most;
	struct collector_state *state; /* that the gathered rows count in */
	uint64_t (*events)(const void *record);
	void (*unwritten)(const void *record);
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below, and of all files */
static struct rec_file *files;
static ZSTD_CCtx *context;
static char *packed; /* one block with its head */
static size_t packed_most;

static int packer_open(void)
{
	if (context)
		return 0;
	packed_most = ZSTD_compressBound(REC_BLOCK_BYTES_MAX);
	packed = malloc(BLOCK_HEAD_BYTES + packed_most);
	context = ZSTD_createCCtx();
	if (packed && context &&
	    !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL)) &&
	    !ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)))
		return 0;
	ZSTD_freeCCtx(context);
	free(packed);
	context = NULL;
	packed = NULL;
	errno = ENOMEM;
	return -1;
}

static void packer_close(void)
{
	ZSTD_freeCCtx(context);
	free(packed);
	context = NULL;
	packed = NULL;
}

/* Writes all bytes at the offset. -1: errno says why only a part, or nothing, was written. */
static int write_whole(int fd, const char *bytes, size_t count, off_t at)
{
	size_t done = 0;

	while (done < count) {
		ssize_t n = pwrite(fd, bytes + done, count - done, at + done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0) {
			errno = ENOSPC;
			return -1;
		}
		done += n;
	}
	return 0;
}

static int make_header(struct rec_file *file, const char *json)
{
	uint32_t length = strlen(json);

	file->header_bytes = (16 + length + 7) / 8 * 8;
	file->header = calloc(1, file->header_bytes);
	if (!file->header)
		return -1;
	memcpy(file->header, "SKMREC02", 8);
	memcpy(file->header + 8, &length, sizeof(length));
	memcpy(file->header + 16, json, length);
	return 0;
}

static int try_create(const struct rec_file *file, int dir_fd)
{
	int fd = new_file(dir_fd, file->name), error;

	if (fd < 0 || !write_whole(fd, file->header, file->header_bytes, 0))
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

/* Creates the table's file in this directory, with its header. A descriptor; -1: errno is set. */
static int create(const struct rec_file *file, int dir_fd)
{
	bool room = room_take(file->header_bytes);
	int fd;

	do {
		fd = try_create(file, dir_fd);
	} while (fd < 0 && errno == ENOSPC && room_free());
	if (room)
		room_settle(file->header_bytes);
	return fd;
}

static void free_file(struct rec_file *file)
{
	int error = errno;

	if (file->fd >= 0)
		close(file->fd);
	free(file->rows);
	free(file->header);
	free(file);
	errno = error;
}

struct rec_file *rec_file_open_json(const struct options *options, const char *table,
				    const char *json, size_t record_bytes)
{
	struct rec_file *file = calloc(1, sizeof(*file));
	int err;

	if (!file)
		return NULL;
	file->record_bytes = record_bytes;
	file->most = (REC_BLOCK_BYTES + record_bytes - 1) / record_bytes;
	file->fd = -1;
	file->rows = malloc(file->most * record_bytes);
	snprintf(file->name, sizeof(file->name), "%s.rec", table);
	pthread_mutex_lock(&lock);
	err = file->rows && !make_header(file, json) ? packer_open() : -1;
	if (!err) {
		file->fd = create(file, options->segment_fd);
		file->end = file->header_bytes;
		err = file->fd < 0 ? -1 : 0;
	}
	if (!err) {
		file->next = files;
		files = file;
	}
	pthread_mutex_unlock(&lock);
	if (!err)
		return file;
	free_file(file);
	return NULL;
}

struct rec_file *rec_file_open(const struct options *options, const char *table,
			       const struct btf *btf, const char *struct_name,
			       const char *flag_enum)
{
	size_t record_bytes = 0;
	char *json = rec_layout_json(options, table, btf, struct_name, flag_enum, &record_bytes);
	struct rec_file *file;

	if (!json)
		return NULL;
	file = rec_file_open_json(options, table, json, record_bytes);
	free(json);
	return file;
}

void rec_file_events(struct rec_file *file, uint64_t (*events)(const void *record))
{
	file->events = events;
}

void rec_file_unwritten(struct rec_file *file, void (*unwritten)(const void *record))
{
	file->unwritten = unwritten;
}

/* Counts the events of records that are not written; returns how many these are. */
static uint64_t give_up(const struct rec_file *file, const char *reason, const char *records,
			size_t count)
{
	uint64_t lost = file->events ? 0 : count;

	for (size_t i = 0; i < count; i++) {
		const char *record = records + i * file->record_bytes;

		if (file->events)
			lost += file->events(record);
		if (file->unwritten)
			file->unwritten(record);
	}
	if (lost)
		reason_add(file->state->lost, reason, lost);
	return lost;
}

/* Packs the gathered rows and writes the block. NULL; or the reason why it could not be written. */
static const char *write_block(struct rec_file *file)
{
	uint32_t head[2];
	size_t total;
	int err, error;

	head[1] = file->count * file->record_bytes;
	total = ZSTD_compress2(context, packed + BLOCK_HEAD_BYTES, packed_most, file->rows,
			       head[1]);
	if (ZSTD_isError(total))
		return "write failed";
	head[0] = total;
	memcpy(packed, head, BLOCK_HEAD_BYTES);
	total += BLOCK_HEAD_BYTES;
	if (!room_take(total))
		return "no room";
	do {
		err = write_whole(file->fd, packed, total, file->end);
		error = errno;
	} while (err && error == ENOSPC && room_free());
	room_settle(total);
	if (!err) {
		file->end += total;
		return NULL;
	}
	/* The torn block is cut off; if the cut fails, the next block overwrites it, and close tries again. */
	(void)!ftruncate(file->fd, file->end);
	return error == ENOSPC || error == EDQUOT ? "disk full" : "write failed";
}

static void flush(struct rec_file *file)
{
	const char *reason;

	if (!file->count)
		return;
	reason = write_block(file);
	if (reason) {
		uint64_t lost = give_up(file, reason, file->rows, file->count);

		/* Whoever gave the rows has counted them as recorded, or is about to. */
		__atomic_fetch_sub(&file->state->recorded, lost, __ATOMIC_RELAXED);
	}
	file->count = 0;
}

size_t rec_file_write(struct rec_file *file, struct collector_state *state, const void *records,
		      size_t count)
{
	size_t taken = 0;

	pthread_mutex_lock(&lock);
	file->state = state;
	if (count && !room_left()) {
		(void)give_up(file, "no room", records, count);
		count = 0;
	}
	while (taken < count) {
		size_t part = file->most - file->count;

		if (part > count - taken)
			part = count - taken;
		memcpy(file->rows + file->count * file->record_bytes,
		       (const char *)records + taken * file->record_bytes,
		       part * file->record_bytes);
		file->count += part;
		taken += part;
		if (file->count == file->most)
			flush(file);
	}
	pthread_mutex_unlock(&lock);
	return taken;
}

void rec_files_flush(void)
{
	pthread_mutex_lock(&lock);
	for (struct rec_file *file = files; file; file = file->next)
		flush(file);
	pthread_mutex_unlock(&lock);
}

void rec_file_stay(struct rec_file *file)
{
	file->stays = true;
}

/* Writes what is gathered, and goes on in the next segment's file. */
static void go_on(struct rec_file *file)
{
	flush(file);
	(void)!ftruncate(file->fd, file->end);
	close(file->fd);
	file->fd = file->next_fd;
	file->end = file->header_bytes;
}

int rec_files_move(int dir_fd)
{
	struct rec_file *file, *failed = NULL;

	pthread_mutex_lock(&lock);
	for (file = files; file && !failed; file = file->next) {
		if (file->stays)
			continue;
		file->next_fd = create(file, dir_fd);
		if (file->next_fd < 0)
			failed = file;
	}
	for (file = files; file != failed; file = file->next) {
		if (file->stays)
			continue;
		if (failed)
			close(file->next_fd);
		else
			go_on(file);
	}
	pthread_mutex_unlock(&lock);
	return failed ? -1 : 0;
}

void rec_file_close(struct rec_file *file, struct collector_state *state)
{
	struct rec_file **link = &files;

	if (!file)
		return;
	pthread_mutex_lock(&lock);
	flush(file);
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	if (!files)
		packer_close();
	pthread_mutex_unlock(&lock);
	if (ftruncate(file->fd, file->end))
		reason_add(state->notes, "table not cut to whole records", 1);
	if (close(file->fd))
		reason_add(state->lost, "write failed", 1);
	file->fd = -1;
	free_file(file);
}
