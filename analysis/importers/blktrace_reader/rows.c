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

/* The kernel's negative errno, in 16 bits. */
static int32_t errno_of(uint16_t error)
{
	int32_t code = (int16_t)error;

	return code < 0 ? -code : code;
}

void rows_write(struct output *output, const struct piece *piece, const struct origin *origin,
		bool is_parity, uint64_t complete_ns, uint16_t error)
{
	struct trace_record *row = output_next(output);
	struct block_record *record = &row->request;

	record->queue_ns = piece->queue_ns;
	record->insert_ns = piece->insert_ns;
	record->issue_ns = piece->issue_ns;
	record->complete_ns = complete_ns;
	record->sector = piece->sector - piece->done_bytes / SECTOR_BYTES;
	record->bytes = piece->bytes + piece->done_bytes;
	record->dev = piece->device;
	record->flags = flags_of(piece->flags);
	record->pid = piece->pid;
	record->error = errno_of(error);
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
	if (piece->origin.id)
		record->pid = piece->origin.pid; /* as comm */
	if (is_parity)
		record->class = BLOCK_CLASS_PARITY;
	record->parity_bytes = is_parity || piece->parity_bytes > record->bytes
				       ? record->bytes
				       : piece->parity_bytes;
	if (!origin)
		return;
	record->origin = origin->id;
	record->origin_ns = origin->queue_ns;
	record->origin_sector = origin->sector;
	record->origin_dev = origin->device;
}

void rows_write_bio(struct output *output, const struct bio *bio, const struct origin *origin,
		    bool is_parity, uint64_t complete_ns, uint16_t error)
{
	struct volume_record *row = output_next_bio(output);

	row->queue_ns = bio->queue_ns;
	row->complete_ns = complete_ns;
	row->sector = bio->sector;
	row->bytes = bio->bytes;
	row->dev = bio->device;
	row->flags = flags_of(bio->flags);
	row->error = errno_of(error);
	row->op = rows_op(bio->flags, bio->bytes);
	row->bio_id = bio->id;
	row->origin = origin ? origin->id : bio->id;
	row->pid = bio->origin.pid;
	row->in_workload = 1; /* as of a request */
	memcpy(row->comm, bio->comm, sizeof(row->comm));
	if (is_parity)
		row->class = BLOCK_CLASS_PARITY;
}
