/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much may be written: up to a size of our own, and never so much that the file system has less than a floor of
 * free space, for whoever else lives on it. The first time that there is no room is the last that anybody asks:
 * from then on events are counted, and nothing is written but losses.json.
 */
#ifndef SEEKMETER_ROOM_H
#define SEEKMETER_ROOM_H

#include "recorder.h"

/* What is kept free if nobody says otherwise: this, or a twentieth of the file system if that is less. */
#define ROOM_FLOOR_BYTES (1ULL << 30)
#define ROOM_FLOOR_SHARE 20
#define ROOM_MOST_BYTES	 (16ULL << 30)

void room_open(const struct options *options);
/* True: so many bytes may be written, and room_settle() is to be called when they are, or will not be. Any thread. */
bool room_take(size_t bytes);
void room_settle(size_t bytes);
/* False: from now on nothing is written. */
bool room_left(void);
/* The member "room" of losses.json. */
void room_describe(FILE *out);

#endif
