/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ring's directory, and its bound. Below --out:
 *
 *   whole/NAME.jsonl            tables of names, whole for the entire watch
 *   segment-NNNNNN/NAME.rec     all other tables, in segments; segment.json once a segment is closed
 *   second.rec                  one row a second (second.h), whole
 *   flight.jsonl                what happened: firings, what was kept, what had to go
 *   kept-N/                     of kept window N: what was under way at its end
 *
 * All of it together stays below a size: when it would not, the oldest segment goes.
 */
#ifndef SEEKMETER_RING_STORE_H
#define SEEKMETER_RING_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options;

struct segment {
	uint32_t number;
	/* All rows of the time between are in this segment or in one before it. end_ns 0: it is open. */
	uint64_t start_ns, end_ns;
	uint64_t bytes;
	bool is_held; /* of a kept window that nobody has claimed yet */
};

/* Makes the directories and flight.jsonl, and sets the options' whole_fd and segment_fd. 0; -1: the error is printed. */
int store_open(struct options *options);
/* The open segment begins with this time. */
void store_begin(uint64_t start_ns);
/* Ends the open segment, of all rows before end_ns; all tables go on in a new one. False: it stays open. */
bool store_cut(uint64_t end_ns);
/* The tables are closed: ends the last segment. */
void store_end(uint64_t end_ns);
void store_close(void);

/* Closed segments, oldest first. */
size_t store_count(void);
struct segment store_at(size_t i);
struct segment store_open_segment(void);
/* Whether the open segment's files have more bytes. */
bool store_open_exceeds(uint64_t bytes);
/* Marks the closed segments whose numbers are in the range as held, or as free. */
void store_hold(uint32_t first, uint32_t last, bool hold);
/* Removes closed segments that nobody holds and that end at or before this time. */
void store_forget(uint64_t until_ns);
/* Segments that end after this time shorten the watch if they must go: flight.jsonl says so. */
void store_wanted_from(uint64_t from_ns);

/* Makes the directory kept-N; a descriptor, or -1. */
int store_kept_dir(unsigned int kept);
void store_kept_measured(unsigned int kept);
/* True: kept-N is claimed, by a file claimed-N. Then kept-N/ is removed. */
bool store_claimed(unsigned int kept);

#endif
