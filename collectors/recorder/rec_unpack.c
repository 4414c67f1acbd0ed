// SPDX-License-Identifier: BSD-2-Clause
/* Prints a packed table (rec_file.c) as one that is not packed; see rec_unpack.h. A stranger may have made the file. */
#include "rec_unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "fail.h"
#include "rec_file.h"

#define HEADER_BYTES_MAX (1UL << 20)

/* Both buffers hold the largest block. */
struct unpacker {
	const char *path;
	FILE *in;
	char *packed, *rows;
	size_t packed_most;
};

static int put(const char *bytes, size_t count)
{
	return fwrite(bytes, 1, count, stdout) == count ? 0
							: fail("standard output", strerror(errno));
}

/* Prints the header. *is_packed: blocks follow; else records. */
static int print_header(struct unpacker *this, bool *is_packed)
{
	char head[16];
	uint32_t length;
	size_t rest;

	if (fread(head, 1, sizeof(head), this->in) != sizeof(head) || memcmp(head, "SKMREC0", 7) ||
	    (head[7] != '1' && head[7] != '2'))
		return fail(this->path, "not a recording of seekmeter");
	memcpy(&length, head + 8, sizeof(length));
	rest = ((size_t)length + 7) / 8 * 8;
	if (length > HEADER_BYTES_MAX || fread(this->rows, 1, rest, this->in) != rest)
		return fail(this->path, "the recording ends inside its header");
	*is_packed = head[7] == '2';
	head[7] = '1';
	return put(head, sizeof(head)) || put(this->rows, rest) ? -1 : 0;
}

/* Prints the rows of a block. 1: the file ends before the block does. */
static int print_block(struct unpacker *this)
{
	uint32_t head[2]; /* packed_bytes, raw_bytes */
	size_t bytes;

	if (fread(head, 1, sizeof(head), this->in) != sizeof(head))
		return 1;
	if (!head[0] || !head[1] || head[0] > this->packed_most || head[1] > REC_BLOCK_BYTES_MAX)
		return fail(this->path, "a block has an impossible size");
	if (fread(this->packed, 1, head[0], this->in) != head[0])
		return 1;
	bytes = ZSTD_decompress(this->rows, head[1], this->packed, head[0]);
	if (ZSTD_isError(bytes) || bytes != head[1])
		return fail(this->path, "a block is damaged");
	return put(this->rows, bytes);
}

static int print_all(struct unpacker *this)
{
	bool is_packed = false;
	int end = 0;
	size_t bytes;

	if (print_header(this, &is_packed))
		return -1;
	while (is_packed && !end)
		end = print_block(this);
	while (!end && (bytes = fread(this->rows, 1, REC_BLOCK_BYTES_MAX, this->in)))
		end = put(this->rows, bytes);
	if (end < 0)
		return -1;
	if (ferror(this->in))
		return fail(this->path, strerror(errno));
	return fflush(stdout) ? fail("standard output", strerror(errno)) : 0;
}

int rec_unpack(const char *path)
{
	struct unpacker this = { .path = path,
				 .in = strcmp(path, "-") ? fopen(path, "re") : stdin,
				 .packed_most = ZSTD_compressBound(REC_BLOCK_BYTES_MAX) };
	int err;

	if (!this.in)
		return fail(path, strerror(errno));
	this.packed = malloc(this.packed_most);
	this.rows = malloc(REC_BLOCK_BYTES_MAX + 8);
	err = this.packed && this.rows ? print_all(&this) : fail(path, "no memory to unpack it");
	free(this.packed);
	free(this.rows);
	fclose(this.in);
	return err;
}
