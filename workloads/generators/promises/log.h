// SPDX-License-Identifier: BSD-2-Clause
/*
 * The log of promises, outside the disk: what the program is about to do, and what it was told is done. A line is one
 * write(2), so it is there as soon as the call returns, whatever becomes of the program:
 *
 *   promises 1 THREADS SEED          the directories are made and synced
 *   NS THREAD writes FILE VERSION SECTORS o|a   about to write a version: o over the one before, a behind it
 *   NS THREAD synced FILE VERSION    fsync or fdatasync of it returned 0
 *   NS THREAD creates NAME FILE      about to; "created": done
 *   NS THREAD moves FROM NAME FILE   rename, also over another file; "moved"
 *   NS THREAD removes NAME           unlink; "removed"
 *   NS THREAD settled DIR            fsync of the directory returned 0
 */
#ifndef PROMISES_LOG_H
#define PROMISES_LOG_H

#include <stdint.h>

/* Opens a new log. An error ends the program. */
void log_open(const char *path);

void log_begin(uint64_t threads, uint64_t seed);

/* Writes a line with the time. EVENT: "synced 12 3" and so on. */
void log_line(uint32_t thread, const char *event, ...) __attribute__((format(printf, 2, 3)));

#endif
