/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The output directory: new files in it, and how much may be written to it.
 *
 * All tables together stay below a size (--room-bytes), and leave a part of the file system free, the floor
 * (--floor-bytes), for its other users. Once either limit is met, only losses.json is still written:
 * events are only counted.
 */
#ifndef SEEKMETER_ROOM_H
#define SEEKMETER_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options;

/* The default floor: 1 GiB, or a twentieth of the file system, whichever is less. */
#define ROOM_FLOOR_BYTES (1ULL << 30)
#define ROOM_FLOOR_SHARE 20
#define ROOM_MOST_BYTES	 (16ULL << 30)

/* The limits, and which was met. */
struct room {
	const char *met; /* "size" or "floor"; NULL: none yet */
	uint64_t met_ns;
	uint64_t most_bytes, floor_bytes;
	uint64_t taken_bytes; /* in all */
};

void room_open(const struct options *options);
/*
 * Reserves bytes. True: they may be written, and room_settle() must follow when they are written or given up. For any
 * thread.
 */
bool room_take(size_t bytes);
void room_settle(size_t bytes);
/* False: a limit was met, and nothing is written from now on. */
bool room_left(void);
struct room room_state(void);
/*
 * Instead of both limits, for the flight recorder (ring_store.h): `make` may remove what is old, and answers whether so many
 * bytes fit then. Rows that do not fit are lost, later ones may fit again. `some` removes something, as the file system is
 * full.
 */
void room_bound(uint64_t bytes, bool (*make)(size_t bytes), bool (*some)(void));
/* A write found the file system full. True: something was removed, try again. */
bool room_free(void);

/* Creates a file that only root may read or write, and unlinks what had its name. A descriptor; -1 with errno. */
int new_file(int dir_fd, const char *name);
/*
 * Replaces the file of this name by a complete new one, so that no reader sees a partial file. On a full disk, where no new
 * file fits, the blocks of the old file take the new text.
 */
bool replace_file(int dir_fd, const char *name, const char *text, size_t length);

#endif
