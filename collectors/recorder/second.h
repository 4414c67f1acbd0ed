/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Table second: one row a second of the whole watch (--ring), so that normal stands beside the moment that was kept.
 *
 * Requests count by their completion. The deepest queue is the most requests in flight of one disk at a look, which the
 * recorder takes whenever it empties its buffers.
 */
#ifndef SEEKMETER_SECOND_H
#define SEEKMETER_SECOND_H

#include <stdbool.h>
#include <stdint.h>

struct block_record;
struct lock_wait_record;
struct options;

/* All of these do nothing unless second_open() was called. */

/* Creates second.rec. 0; -1: the error is printed. */
int second_open(const struct options *options);
void second_begin(uint64_t ready_ns);
/* Requests, or waits for locks, are recorded: the rows will say so. */
void second_has_requests(void);
void second_has_waits(void);
/* A request's row, and a row of lock waits, that goes to its table. */
void second_add_request(const struct block_record *request);
void second_add_wait(const struct lock_wait_record *wait);
/* Looks, and writes the row of each second that is over. After the buffers were emptied. */
void second_tick(uint64_t now_ns);
/* Writes the row of the last part of a second. */
void second_close(uint64_t until_ns);
/* Rows that could not be written. */
uint64_t second_lost(void);

#endif
