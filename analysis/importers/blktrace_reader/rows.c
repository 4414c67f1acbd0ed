// SPDX-License-Identifier: BSD-2-Clause
/* A finished request as a row of the block table. */
#include "rows.h"

#include <string.h>

enum block_op rows_op(uint32_t categories, uint32_t bytes)
{
	if (categories & CATEGORY_PASSTHROUGH)
		return BLOCK_OP_DRIVER;
	if (categories & CATEGORY_DISCARD)
		return BLOCK_OP_DISCARD;
	if (!bytes)
		return categories & CATEGORY_FLUSH ? BLOCK_OP_FLUSH : BLOCK_OP_OTHER;
	if (categories & CATEGORY_WRITE)
		return BLOCK_OP_WRITE;
	return categories & CATEGORY_READ ? BLOCK_OP_READ : BLOCK_OP_OTHER;
}

static uint32_t flags_of(uint32_t categories)
{
	return (categories & CATEGORY_SYNC ? BLOCK_FLAG_SYNC : 0) |
	       (categories & CATEGORY_META ? BLOCK_FLAG_META : 0) |
	       (categories & CATEGORY_FUA ? BLOCK_FLAG_FUA : 0) |
	       (categories & CATEGORY_FLUSH ? BLOCK_FLAG_PREFLUSH : 0) |
	       (categories & CATEGORY_AHEAD ? BLOCK_FLAG_AHEAD : 0);
}

void rows_write(struct output *output, const struct piece *piece, uint64_t complete_ns,
		uint16_t error)
{
	struct trace_record *row = output_next(output);
	struct block_record *record = &row->request;
	/* The kernel's negative errno, in 16 bits. */
	int32_t code = (int16_t)error;

	record->queue_ns = piece->queue_ns;
	record->insert_ns = piece->insert_ns;
	record->issue_ns = piece->issue_ns;
	record->complete_ns = complete_ns;
	record->sector = piece->sector - piece->done_bytes / SECTOR_BYTES;
	record->bytes = piece->bytes + piece->done_bytes;
	record->dev = piece->device;
	record->flags = flags_of(piece->flags);
	record->pid = piece->pid;
	record->error = code < 0 ? -code : code;
	record->merges = piece->merges;
	record->requeues = piece->requeues;
	record->op = rows_op(piece->flags, record->bytes);
	record->queue_source = piece->from_request ? BLOCK_SOURCE_REQUEST : BLOCK_SOURCE_BIO;
	row->get_request_ns = piece->get_request_ns;
	if (rows_merges_known(piece)) {
		uint64_t m2d_ns = piece->merges * piece->issue_ns - piece->merges_ns;

		row->q2m_ns = piece->q2m_ns;
		/* A merge after the issue is none. */
		row->m2d_ns = m2d_ns <= INT64_MAX ? m2d_ns : 0;
	}
	record->in_workload =
		1; /* a block trace has no cgroup to tell the workload's requests by */
	memcpy(record->comm, piece->comm, sizeof(record->comm));
}
