/* SPDX-License-Identifier: BSD-2-Clause */
/* Files and directories of the ring, all directly below --out; and flight.jsonl, in which it says what happened. */
#ifndef SEEKMETER_RING_DIRS_H
#define SEEKMETER_RING_DIRS_H

#include <stdint.h>

/* Creates flight.jsonl in the directory. 0, or -1 with errno. */
int ring_dirs_open(int dir_fd);
void ring_dirs_close(void);

/* Appends a line to flight.jsonl. */
void flight_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The name of a segment's directory. */
const char *segment_name(uint32_t number, char name[32]);
/* Makes a new directory; a descriptor, or -1 with errno. */
int ring_make_dir(const char *name);
/* Removes a directory with its files. 0, or -1 with errno. */
int ring_remove_dir(const char *name);
/* What the files of a directory take; ".": those beside the directories. 0: there is none. */
uint64_t ring_bytes_in(const char *name);

#endif
