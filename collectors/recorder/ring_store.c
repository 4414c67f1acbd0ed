// SPDX-License-Identifier: BSD-2-Clause
/*
 * The ring's directory, and its bound; see ring_store.h.
 *
 * Its size is measured (blocks of its files), and what is written until the next measurement is added to it, each write
 * with a page more than it has: so the bound holds between measurements too. Two threads write: the lock is for all of it.
 */
#include "ring_store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "losses.h"
#include "options.h"
#include "rec_file.h"
#include "ring_dirs.h"
#include "room.h"

#define PAGE_BYTES    4096
#define SPARE_BYTES   (160ULL << 10) /* losses.json, old and new, segment.json, flight.jsonl */
#define SEGMENTS_MOST 1024
#define SHARE_AFTER   4 /* of the bytes: free for what comes after a window that was kept */
#define SAID_AGAIN(x) ((x) / 4 * 3)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int dir_fd = -1, whole_fd = -1, segment_fd = -1;
static uint64_t most_bytes;
static struct segment segments[SEGMENTS_MOST]; /* closed */
static size_t count;
static struct segment open_one;
static char *losses_before; /* the counts as the open segment began */
static uint64_t measured_bytes, since_bytes;
static uint64_t kept_bytes; /* of kept-N/ */
static uint64_t wanted_ns, said_span_ns;
static bool said_whole;

/* The rest below needs the lock. */

static void measure(void)
{
	char name[32];
	uint64_t whole_bytes = ring_bytes_in("whole");

	open_one.bytes = ring_bytes_in(segment_name(open_one.number, name));
	measured_bytes = ring_bytes_in(".") + whole_bytes + open_one.bytes + kept_bytes;
	for (size_t i = 0; i < count; i++)
		measured_bytes += segments[i].bytes;
	since_bytes = 0;
	if (!said_whole && whole_bytes > most_bytes / 2) {
		said_whole = true;
		flight_say("{\"whole_bytes\":%llu,\"ns\":%llu}", (unsigned long long)whole_bytes,
			   (unsigned long long)monotonic_ns());
	}
}

static void drop(size_t i)
{
	char name[32];

	if (ring_remove_dir(segment_name(segments[i].number, name)))
		fail(name, strerror(errno));
	measured_bytes -= measured_bytes < segments[i].bytes ? measured_bytes : segments[i].bytes;
	memmove(&segments[i], &segments[i + 1], (count - i - 1) * sizeof(segments[0]));
	count--;
}

/* Says how much of the time before a firing is left, whenever it is clearly less than was said. */
static void say_shortened(const struct segment *gone)
{
	uint64_t now = monotonic_ns(), span = now > gone->end_ns ? now - gone->end_ns : 0;

	if (gone->end_ns <= wanted_ns || (said_span_ns && span >= SAID_AGAIN(said_span_ns)))
		return;
	said_span_ns = span;
	flight_say("{\"shortened_ns\":%llu,\"span_ns\":%llu}", (unsigned long long)now,
		   (unsigned long long)span);
}

/* The oldest segment that nobody holds; `count`: there is none. */
static size_t first_free(void)
{
	size_t i = 0;

	while (i < count && segments[i].is_held)
		i++;
	return i;
}

/* Removes the oldest closed segment, of a window nobody has claimed only if there is no other. */
static bool drop_oldest(void)
{
	struct segment gone;
	char name[32];
	size_t i = first_free();

	if (!count)
		return false;
	if (i == count)
		i = 0;
	gone = segments[i];
	drop(i);
	if (gone.is_held)
		flight_say("{\"dropped\":\"%s\",\"ns\":%llu}", segment_name(gone.number, name),
			   (unsigned long long)monotonic_ns());
	else
		say_shortened(&gone);
	return true;
}

static bool fits(uint64_t bytes, uint64_t most)
{
	return measured_bytes + since_bytes + bytes + SPARE_BYTES <= most;
}

static bool any_held(void)
{
	for (size_t i = 0; i < count; i++)
		if (segments[i].is_held)
			return true;
	return false;
}

/* As room_take() asks: may so many bytes be written? */
static bool make_room(size_t bytes)
{
	uint64_t want = bytes + PAGE_BYTES;
	bool room;

	pthread_mutex_lock(&lock);
	if (!fits(want, most_bytes - most_bytes / SHARE_AFTER))
		measure();
	/* What comes while a kept window is not claimed yet has room then, without any of that window's segments going. */
	while (!fits(want, most_bytes - most_bytes / SHARE_AFTER) && count && !any_held())
		(void)drop_oldest();
	while (!fits(want, most_bytes) && drop_oldest())
		;
	room = fits(want, most_bytes);
	if (room)
		since_bytes += want;
	pthread_mutex_unlock(&lock);
	return room;
}

/* As a write asks that found the file system full, below the bound. */
static bool free_some(void)
{
	bool freed;

	pthread_mutex_lock(&lock);
	freed = drop_oldest();
	pthread_mutex_unlock(&lock);
	return freed;
}

int store_open(struct options *options)
{
	struct statvfs space;
	char name[32];

	dir_fd = options->out_fd;
	if (!fstatvfs(dir_fd, &space) && options->ram_bytes > space.f_bavail * space.f_frsize)
		options->ram_bytes = space.f_bavail * space.f_frsize;
	most_bytes = options->ram_bytes;
	if (ring_dirs_open(dir_fd))
		return fail("flight.jsonl", strerror(errno));
	whole_fd = ring_make_dir("whole");
	segment_fd = ring_make_dir(segment_name(0, name));
	if (whole_fd < 0 || segment_fd < 0)
		return fail(whole_fd < 0 ? "whole" : name, strerror(errno));
	options->whole_fd = whole_fd;
	options->segment_fd = segment_fd;
	room_bound(options->ram_bytes, make_room, free_some);
	return 0;
}

static char *counts_text(void)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	losses_write_counts(out);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

void store_begin(uint64_t start_ns)
{
	open_one.start_ns = start_ns;
	losses_before = counts_text();
}

/* Writes segment.json, with the counts of losses at the segment's begin and end. */
static void close_segment(int fd, uint64_t end_ns)
{
	char *losses = counts_text(), *text = NULL, name[32];

	pthread_mutex_lock(&lock);
	open_one.end_ns = end_ns;
	open_one.bytes = ring_bytes_in(segment_name(open_one.number, name));
	if (asprintf(
		    &text,
		    "{\"start_ns\":%llu,\"end_ns\":%llu,\"bytes\":%llu,\"losses_start\":%s,\"losses\":%s}\n",
		    (unsigned long long)open_one.start_ns, (unsigned long long)end_ns,
		    (unsigned long long)open_one.bytes, losses_before ? losses_before : "{}",
		    losses ? losses : "{}") < 0)
		text = NULL;
	if (!text || !replace_file(fd, "segment.json", text, strlen(text)))
		fail(name, "segment.json can't be written");
	open_one.bytes = ring_bytes_in(name);
	while (count == SEGMENTS_MOST && drop_oldest())
		;
	segments[count++] = open_one;
	pthread_mutex_unlock(&lock);
	free(text);
	free(losses_before);
	losses_before = losses;
}

bool store_cut(uint64_t end_ns)
{
	char name[32];
	int fd, before_fd = segment_fd;

	fd = ring_make_dir(segment_name(open_one.number + 1, name));
	if (fd < 0 || rec_files_move(fd)) {
		/* No room for the heads of the tables: later. */
		if (fd >= 0)
			close(fd);
		(void)ring_remove_dir(name);
		return false;
	}
	segment_fd = fd;
	close_segment(before_fd, end_ns);
	close(before_fd);
	pthread_mutex_lock(&lock);
	open_one = (struct segment){ .number = open_one.number + 1, .start_ns = monotonic_ns() };
	measure();
	pthread_mutex_unlock(&lock);
	return true;
}

void store_end(uint64_t end_ns)
{
	close_segment(segment_fd, end_ns);
}

void store_close(void)
{
	int *const fds[] = { &segment_fd, &whole_fd };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
	ring_dirs_close();
	free(losses_before);
	losses_before = NULL;
}

size_t store_count(void)
{
	return count;
}

struct segment store_at(size_t i)
{
	return segments[i];
}

struct segment store_open_segment(void)
{
	return open_one;
}

bool store_open_exceeds(uint64_t bytes)
{
	bool exceeds;

	pthread_mutex_lock(&lock);
	exceeds = open_one.bytes + since_bytes > bytes;
	if (exceeds) {
		measure();
		exceeds = open_one.bytes > bytes;
	}
	pthread_mutex_unlock(&lock);
	return exceeds;
}

void store_hold(uint32_t first, uint32_t last, bool hold)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < count; i++)
		if (segments[i].number >= first && segments[i].number <= last)
			segments[i].is_held = hold;
	pthread_mutex_unlock(&lock);
}

void store_forget(uint64_t until_ns)
{
	pthread_mutex_lock(&lock);
	for (size_t i = count; i-- > 0;)
		if (!segments[i].is_held && segments[i].end_ns <= until_ns)
			drop(i);
	pthread_mutex_unlock(&lock);
}

void store_wanted_from(uint64_t from_ns)
{
	size_t i;

	pthread_mutex_lock(&lock);
	wanted_ns = from_ns;
	i = first_free();
	/* The oldest segment reaches back far enough again. */
	if (i < count && segments[i].start_ns <= from_ns)
		said_span_ns = 0;
	pthread_mutex_unlock(&lock);
}

static const char *kept_name(unsigned int kept, char name[32])
{
	snprintf(name, 32, "kept-%u", kept);
	return name;
}

int store_kept_dir(unsigned int kept)
{
	char name[32];

	return ring_make_dir(kept_name(kept, name));
}

void store_kept_measured(unsigned int kept)
{
	char name[32];
	uint64_t bytes = ring_bytes_in(kept_name(kept, name));

	pthread_mutex_lock(&lock);
	kept_bytes += bytes;
	measure();
	pthread_mutex_unlock(&lock);
}

bool store_claimed(unsigned int kept)
{
	char name[32];
	uint64_t bytes;

	snprintf(name, sizeof(name), "claimed-%u", kept);
	if (faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW))
		return false;
	bytes = ring_bytes_in(kept_name(kept, name));
	(void)ring_remove_dir(name);
	pthread_mutex_lock(&lock);
	kept_bytes -= kept_bytes < bytes ? kept_bytes : bytes;
	measure();
	pthread_mutex_unlock(&lock);
	return true;
}
