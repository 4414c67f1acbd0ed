// SPDX-License-Identifier: BSD-2-Clause
/*
 * The operations of promises. A line of the log precedes each change and follows each success, so that the log never
 * promises more than the kernel did, and never knows less than may be on the disk.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/files/directory.h"
#include "common/session/fail.h"
#include "promises/log.h"
#include "promises/sectors.h"
#include "promises/work.h"

#define LIVING_MOST (DIRS_PER_THREAD * SLOTS_PER_DIR / 2)

struct place {
	uint32_t dir;
	uint32_t slot;
};

static uint32_t name_at(const struct promiser *me, struct place at)
{
	return name_number(me->thread, at.dir, at.slot);
}

static struct kept_file *file_at(struct promiser *me, struct place at)
{
	return &me->slots[at.dir][at.slot];
}

static const char *entry_of(char entry[8], struct place at)
{
	snprintf(entry, 8, "f%02u", at.slot % SLOTS_PER_DIR);
	return entry;
}

/* Chooses a slot with or without a file, if there is one; the search begins at a random slot. */
static bool choose(struct promiser *me, bool with_file, struct place *at)
{
	uint32_t most = DIRS_PER_THREAD * SLOTS_PER_DIR;
	uint32_t from = (uint32_t)rng_below(&me->rng, most);

	for (uint32_t i = 0; i < most; i++) {
		uint32_t chosen = (from + i) % most;

		*at = (struct place){ chosen / SLOTS_PER_DIR, chosen % SLOTS_PER_DIR };
		if ((file_at(me, *at)->number != 0) == with_file)
			return true;
	}
	return false;
}

static uint32_t living(const struct promiser *me)
{
	uint32_t count = 0;

	for (uint32_t dir = 0; dir < DIRS_PER_THREAD; dir++)
		for (uint32_t slot = 0; slot < SLOTS_PER_DIR; slot++)
			count += me->slots[dir][slot].number != 0;
	return count;
}

static void settle(struct promiser *me, uint32_t dir)
{
	uint32_t number = me->thread * DIRS_PER_THREAD + dir;
	char path[NAME_BYTES];

	dir_path(path, number);
	if (fsync(me->dirs[dir]) != 0)
		fail_errno("cannot sync the directory", path);
	log_line(me->thread, "settled %" PRIu32, number);
	me->syncs++;
}

static bool chance(struct promiser *me, uint64_t of_four)
{
	return rng_below(&me->rng, 4) < of_four;
}

/* Writes the next version of FILE, open as FD, and usually syncs it. */
static void write_version(struct promiser *me, struct kept_file *file, int fd, const char *path,
			  bool must_sync)
{
	uint32_t first = file->is_appended ? file->version * file->sectors : 0;
	size_t bytes = (size_t)file->sectors * SECTOR_BYTES;
	int failed;

	file->version++;
	for (uint32_t i = 0; i < file->sectors; i++) {
		struct sector_id id = { file->number, file->version, first + i };

		sector_fill(me->buffer + (size_t)i * SECTOR_BYTES, me->seed, &id);
	}
	log_line(me->thread, "writes %" PRIu64 " %" PRIu32 " %" PRIu32 " %c", file->number,
		 file->version, file->sectors, file->is_appended ? 'a' : 'o');
	if (pwrite(fd, me->buffer, bytes, (off_t)first * SECTOR_BYTES) != (ssize_t)bytes)
		fail_errno("cannot write", path);
	me->bytes += bytes;
	if (!must_sync && !chance(me, 3))
		return;
	failed = chance(me, 2) ? fsync(fd) : fdatasync(fd);
	if (failed)
		fail_errno("cannot sync", path);
	log_line(me->thread, "synced %" PRIu64 " %" PRIu32, file->number, file->version);
	me->syncs++;
}

static int open_file(struct promiser *me, struct place at, int flags, char path[NAME_BYTES])
{
	char entry[8];
	int fd = openat(me->dirs[at.dir], entry_of(entry, at), flags | O_CLOEXEC, 0644);

	name_path(path, name_at(me, at));
	if (fd < 0)
		fail_errno("cannot open", path);
	return fd;
}

static void close_file(int fd, const char *path)
{
	if (close(fd) != 0)
		fail_errno("cannot close", path);
}

static void create(struct promiser *me, struct place at, bool must_sync)
{
	struct kept_file *file = file_at(me, at);
	uint64_t number = ++me->files * THREADS_MAX + me->thread;
	bool is_appended = chance(me, 1);
	uint32_t most = is_appended ? VERSION_SECTORS_MAX_APPENDED : FILE_SECTORS_MAX;
	char path[NAME_BYTES];
	int fd;

	*file = (struct kept_file){ number, 0, 1 + (uint32_t)rng_below(&me->rng, most),
				    is_appended };
	log_line(me->thread, "creates %" PRIu32 " %" PRIu64, name_at(me, at), number);
	fd = open_file(me, at, O_RDWR | O_CREAT | O_EXCL, path);
	log_line(me->thread, "created %" PRIu32 " %" PRIu64, name_at(me, at), number);
	write_version(me, file, fd, path, must_sync);
	close_file(fd, path);
}

static void write_again(struct promiser *me, struct place at)
{
	char path[NAME_BYTES];
	int fd = open_file(me, at, O_RDWR, path);

	write_version(me, file_at(me, at), fd, path, false);
	close_file(fd, path);
}

static void move(struct promiser *me, struct place from, struct place to)
{
	uint64_t number = file_at(me, from)->number;
	char old_entry[8], new_entry[8], path[NAME_BYTES];

	name_path(path, name_at(me, from));
	log_line(me->thread, "moves %" PRIu32 " %" PRIu32 " %" PRIu64, name_at(me, from),
		 name_at(me, to), number);
	if (renameat(me->dirs[from.dir], entry_of(old_entry, from), me->dirs[to.dir],
		     entry_of(new_entry, to)) != 0)
		fail_errno("cannot rename", path);
	log_line(me->thread, "moved %" PRIu32 " %" PRIu32 " %" PRIu64, name_at(me, from),
		 name_at(me, to), number);
	*file_at(me, to) = *file_at(me, from);
	*file_at(me, from) = (struct kept_file){ 0 };
	if (chance(me, 2))
		settle(me, to.dir);
	if (from.dir != to.dir && chance(me, 2))
		settle(me, from.dir);
}

static void remove_file(struct promiser *me, struct place at)
{
	char entry[8], path[NAME_BYTES];

	name_path(path, name_at(me, at));
	log_line(me->thread, "removes %" PRIu32, name_at(me, at));
	if (unlinkat(me->dirs[at.dir], entry_of(entry, at), 0) != 0)
		fail_errno("cannot remove", path);
	log_line(me->thread, "removed %" PRIu32, name_at(me, at));
	*file_at(me, at) = (struct kept_file){ 0 };
	if (chance(me, 2))
		settle(me, at.dir);
}

void promise_something(struct promiser *me)
{
	uint64_t chosen = rng_below(&me->rng, 10);
	uint32_t files = living(me);
	struct place at, target;

	if (files == 0 || (chosen < 3 && files < LIVING_MOST)) {
		choose(me, false, &at);
		create(me, at, false);
		if (chance(me, 2))
			settle(me, at.dir);
		return;
	}
	choose(me, true, &at);
	if (chosen < 6) {
		write_again(me, at);
	} else if (chosen < 8) { /* a new file in the place of an old one, as editors save */
		choose(me, false, &target);
		create(me, target, true);
		move(me, target, at);
	} else if (chosen == 8 && choose(me, false, &target)) {
		move(me, at, target);
	} else {
		remove_file(me, at);
	}
}

static void sync_directory(int fd, const char *name)
{
	if (fsync(fd) != 0)
		fail_errno("cannot sync the directory", name);
}

void make_directories(int dir_fd, const char *dir, struct promiser *promisers, uint64_t threads)
{
	int top = directory_make(dir_fd, TOP);

	for (uint64_t i = 0; i < threads; i++) {
		char name[NAME_BYTES];
		int mine;

		snprintf(name, sizeof(name), "t%02u", promisers[i].thread);
		mine = directory_make(top, name);
		for (uint32_t each = 0; each < DIRS_PER_THREAD; each++) {
			snprintf(name, sizeof(name), "d%" PRIu32, each);
			promisers[i].dirs[each] = directory_make(mine, name);
			sync_directory(promisers[i].dirs[each], name);
		}
		sync_directory(mine, name);
		close_file(mine, name);
	}
	sync_directory(top, TOP);
	close_file(top, TOP);
	sync_directory(dir_fd, dir);
}
