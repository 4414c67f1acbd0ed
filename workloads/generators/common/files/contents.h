// SPDX-License-Identifier: BSD-2-Clause
/*
 * File contents for all generators: made-up text of words, punctuation and numbers. It compresses about as source code
 * does (README.md has the ratio): zeros would favour compressing file systems, random bytes would penalise them. The
 * text is made once; writing costs no CPU time per byte beyond the kernel's copy.
 */
#ifndef GENERATORS_CONTENTS_H
#define GENERATORS_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONTENTS_CHUNK_BYTES (256 * 1024) /* one read(2) or write(2) at most */

void contents_init(void);

/*
 * Writes BYTES bytes of the text to FD. KEY, a number that differs by file, decides the offset in the text. PATH is for
 * messages. Ends the program if not all bytes can be written.
 */
void contents_write(int fd, uint64_t bytes, uint64_t key, const char *path);

/*
 * Returns the text that contents_write() writes at OFFSET of a file, at least CONTENTS_CHUNK_BYTES bytes. For
 * generators that choose the size of their writes.
 */
const char *contents_at(uint64_t key, uint64_t offset);

/*
 * Reads FD to its end. Returns whether the file has exactly the BYTES bytes that contents_write() writes for KEY.
 * Threads may call this and contents_write() at the same time.
 */
bool contents_same(int fd, uint64_t bytes, uint64_t key, const char *path);

/* Fills BUFFER with the text, repeated from its beginning: for generators that write from buffers. */
void contents_fill(char *buffer, size_t bytes);

/* Reads FD to its end. Returns the number of bytes. Not for several threads at once. */
uint64_t contents_read(int fd, const char *path);

#endif
