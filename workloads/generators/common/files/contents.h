// SPDX-License-Identifier: BSD-2-Clause
/*
 * What the generators write into files: made-up text of words, punctuation and numbers, which
 * compresses about as source code does (README.md has the ratio), so that compressing file systems
 * neither win for free (zeros) nor lose for free (random bytes). Made once; writing costs no CPU
 * time per byte beyond the kernel's copy.
 */
#ifndef GENERATORS_CONTENTS_H
#define GENERATORS_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTENTS_CHUNK_BYTES (256 * 1024) /* one read(2) or write(2) at most */

void contents_init(void);

/*
 * Write BYTES bytes to FD, from a place in the text that KEY (any number that tells files apart)
 * decides. PATH is for messages. Ends the program if not all can be written.
 */
void contents_write(int fd, uint64_t bytes, uint64_t key, const char *path);

/*
 * What contents_write() writes at OFFSET of a file; at least CONTENTS_CHUNK_BYTES of it. For programs that
 * write in pieces of their own.
 */
const char *contents_at(uint64_t key, uint64_t offset);

/*
 * Read FD to its end: true if these are the BYTES bytes that contents_write() wrote with KEY, and no more.
 * Threads may do so at once (contents_write() too).
 */
bool contents_same(int fd, uint64_t bytes, uint64_t key, const char *path);

/* Fill BUFFER with the text from its beginning on, over and over: for generators with writes of their own. */
void contents_fill(char *buffer, size_t bytes);

/* Read FD to its end; returns the number of bytes. */
uint64_t contents_read(int fd, const char *path);

#endif
