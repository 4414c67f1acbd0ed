// SPDX-License-Identifier: BSD-2-Clause
/*
 * The names that promises may make, all known beforehand: TOP/tNN/dN/fNN. A name is a slot that holds one file after
 * the other, or none. Each thread has directories of its own, so the log has its operations in their order.
 */
#ifndef PROMISES_NAMES_H
#define PROMISES_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TOP		"promises"
#define THREADS_MAX	64
#define DIRS_PER_THREAD 2
#define SLOTS_PER_DIR	32
#define NAMES_MAX	(THREADS_MAX * DIRS_PER_THREAD * SLOTS_PER_DIR)
#define NAME_BYTES	32

/* A name by its number in the log; a directory is the number of its first name / SLOTS_PER_DIR. */
static inline uint32_t name_number(uint32_t thread, uint32_t dir, uint32_t slot)
{
	return (thread * DIRS_PER_THREAD + dir) * SLOTS_PER_DIR + slot;
}

static inline void dir_path(char path[NAME_BYTES], uint32_t dir)
{
	snprintf(path, NAME_BYTES, "t%02u/d%u", dir / DIRS_PER_THREAD, dir % DIRS_PER_THREAD);
}

static inline void name_path(char path[NAME_BYTES], uint32_t name)
{
	uint32_t dir = name / SLOTS_PER_DIR;

	snprintf(path, NAME_BYTES, "t%02u/d%u/f%02u", dir / DIRS_PER_THREAD, dir % DIRS_PER_THREAD,
		 name % SLOTS_PER_DIR);
}

#endif
