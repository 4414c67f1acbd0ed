// SPDX-License-Identifier: BSD-2-Clause
/*
 * The output directory: new files in it, and how much may be written to it; see room.h.
 *
 * The file system's free space is read every LOOK_NS or LOOK_BYTES (statvfs may be slow: a guest's file system is its
 * host's), and whenever a limit seems to be met. In between, what the recorder takes is subtracted.
 */
#include "room.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"

#define LOOK_NS	    100000000ULL
#define LOOK_BYTES  (4ULL << 20)
/* For losses.json, old and new, and for the file system's own metadata. */
#define SPARE_BYTES (256ULL << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int dir_fd;
static uint64_t most_bytes, floor_bytes;
static uint64_t taken_bytes;	 /* in all, since the start */
static uint64_t unwritten_bytes; /* the part of taken_bytes that is not written yet */
static uint64_t free_bytes;	 /* when last read, less unwritten_bytes */
static uint64_t since_bytes;	 /* taken since the last reading */
static uint64_t next_look_ns;
static const char *met; /* the limit that was met first; NULL: neither was */
static uint64_t met_ns;
static bool (*make_room)(size_t bytes);
static bool (*free_some)(void);

/* Reads the free space. If that fails there is no floor. */
static void read_free_bytes(uint64_t now_ns)
{
	struct statvfs status;

	next_look_ns = now_ns + LOOK_NS;
	since_bytes = 0;
	free_bytes = UINT64_MAX / 2;
	if (fstatvfs(dir_fd, &status))
		return;
	free_bytes = (uint64_t)status.f_bavail * status.f_frsize;
	free_bytes -= free_bytes < unwritten_bytes ? free_bytes : unwritten_bytes;
}

static bool fits(size_t bytes)
{
	return !floor_bytes || free_bytes >= since_bytes + bytes + SPARE_BYTES + floor_bytes;
}

void room_open(const struct options *options)
{
	struct statvfs status;

	dir_fd = options->out_fd;
	if (make_room)
		return;
	most_bytes = options->room_bytes ? options->room_bytes : ROOM_MOST_BYTES;
	floor_bytes = options->floor_bytes;
	if (!options->floor_given && !fstatvfs(dir_fd, &status)) {
		floor_bytes = (uint64_t)status.f_blocks * status.f_frsize / ROOM_FLOOR_SHARE;
		if (floor_bytes > ROOM_FLOOR_BYTES)
			floor_bytes = ROOM_FLOOR_BYTES;
	}
	read_free_bytes(monotonic_ns());
}

static const char *limit_met(size_t bytes, uint64_t now_ns)
{
	if (taken_bytes + bytes > most_bytes)
		return "size";
	if (now_ns >= next_look_ns || since_bytes + bytes > LOOK_BYTES || !fits(bytes))
		read_free_bytes(now_ns);
	return fits(bytes) ? NULL : "floor";
}

bool room_take(size_t bytes)
{
	uint64_t now_ns = monotonic_ns();
	bool room;

	if (make_room && !make_room(bytes))
		return false;
	pthread_mutex_lock(&lock);
	if (!met && !make_room) {
		met = limit_met(bytes, now_ns);
		met_ns = met ? now_ns : 0;
	}
	room = !met;
	if (room) {
		taken_bytes += bytes;
		since_bytes += bytes;
		unwritten_bytes += bytes;
	}
	pthread_mutex_unlock(&lock);
	return room;
}

void room_settle(size_t bytes)
{
	pthread_mutex_lock(&lock);
	unwritten_bytes -= bytes;
	pthread_mutex_unlock(&lock);
}

bool room_left(void)
{
	bool left;

	pthread_mutex_lock(&lock);
	left = !met;
	pthread_mutex_unlock(&lock);
	return left;
}

struct room room_state(void)
{
	struct room room;

	pthread_mutex_lock(&lock);
	room = (struct room){ met, met_ns, most_bytes, floor_bytes, taken_bytes };
	pthread_mutex_unlock(&lock);
	return room;
}

int new_file(int dir_fd, const char *name)
{
	/* A collector that could not start may have left a file; any other file of this name must not be written to. */
	unlinkat(dir_fd, name, 0);
	return openat(dir_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
}

void room_bound(uint64_t bytes, bool (*make)(size_t bytes), bool (*some)(void))
{
	most_bytes = bytes;
	make_room = make;
	free_some = some;
}

bool room_free(void)
{
	return free_some && free_some();
}

/* Writes the text to fd, and closes fd. */
static bool write_file(int fd, const char *text, size_t length)
{
	bool whole;

	if (fd < 0)
		return false;
	whole = pwrite(fd, text, length, 0) == (ssize_t)length && ftruncate(fd, length) == 0;
	return close(fd) == 0 && whole;
}

bool replace_file(int dir_fd, const char *name, const char *text, size_t length)
{
	char new[64];

	snprintf(new, sizeof(new), ".%s.new", name);
	if (write_file(new_file(dir_fd, new), text, length) && !renameat(dir_fd, new, dir_fd, name))
		return true;
	unlinkat(dir_fd, new, 0);
	return write_file(openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC), text, length);
}
