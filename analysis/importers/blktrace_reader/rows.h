/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SEEKMETER_BLKTRACE_ROWS_H
#define SEEKMETER_BLKTRACE_ROWS_H

#include "actions.h"
#include "bios.h"
#include "output.h"
#include "pieces.h"

/* What a request of these categories and this size is. A trace tells no write of zeroes, secure erase or zone
 * command from a write, a discard and what moves no data. */
enum block_op rows_op(uint32_t categories, uint32_t bytes);
/* Were all bios beyond its first seen being merged? */
static inline bool rows_merges_known(const struct piece *piece)
{
	return piece->merges && piece->merges == piece->merges_seen;
}

/*
 * complete_ns 0: the end was not seen. error: as in the completion's event. origin: NULL: none is known. is_parity: of a
 * raid array.
 */
void rows_write(struct output *output, const struct piece *piece, const struct origin *origin,
		bool is_parity, uint64_t complete_ns, uint16_t error);
/* A volume's bio. */
void rows_write_bio(struct output *output, const struct bio *bio, const struct origin *origin,
		    bool is_parity, uint64_t complete_ns, uint16_t error);

#endif
