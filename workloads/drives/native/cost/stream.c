// SPDX-License-Identifier: BSD-2-Clause
#include "stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct record {
	int64_t arrival_ns;
	uint64_t sector;
	uint32_t sectors;
	uint8_t op;
	uint8_t fua;
	uint16_t zero;
};

_Static_assert(sizeof(struct record) == 24, "main.c describes 24 bytes");
_Static_assert(sizeof(struct cost_row) == 104, "main.c describes 104 bytes");

static enum stream_end read_record(FILE *file, struct record *record)
{
	size_t got = fread(record, 1, sizeof(*record), file);

	if (got == sizeof(*record))
		return record->zero || record->fua > 1 ? STREAM_WRONG : STREAM_MORE;
	if (ferror(file))
		return STREAM_FAILED;
	return got ? STREAM_WRONG : STREAM_END;
}

/* A whole number and the space behind it. */
static bool take_number(char **at, uint64_t most, uint64_t *value)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	errno = 0;
	*value = strtoull(*at, &end, 10);
	if (errno || *value > most || (*end != ' ' && *end != '\n'))
		return false;
	*at = end + 1;
	return true;
}

static enum stream_end read_line(FILE *file, struct record *record)
{
	uint64_t arrival_ns, sectors, fua;
	char line[128], *at = line;
	const char *op;

	if (!fgets(line, sizeof(line), file))
		return ferror(file) ? STREAM_FAILED : STREAM_END;
	if (!take_number(&at, INT64_MAX, &arrival_ns))
		return STREAM_WRONG;
	op = *at ? strchr("rwf", *at) : NULL;
	if (!op || at[1] != ' ')
		return STREAM_WRONG;
	at += 2;
	if (!take_number(&at, UINT64_MAX, &record->sector) ||
	    !take_number(&at, UINT32_MAX, &sectors) || !take_number(&at, 1, &fua) || *at)
		return STREAM_WRONG;
	record->arrival_ns = (int64_t)arrival_ns;
	record->sectors = (uint32_t)sectors;
	record->op = *op == 'r' ? DRIVE_OP_READ : *op == 'w' ? DRIVE_OP_WRITE : DRIVE_OP_FLUSH;
	record->fua = (uint8_t)fua;
	return STREAM_MORE;
}

enum stream_end stream_read(FILE *file, bool text, uint64_t number, struct drive_request *request)
{
	struct record record = { 0 };
	enum stream_end end = text ? read_line(file, &record) : read_record(file, &record);

	if (end != STREAM_MORE)
		return end;
	if (record.op > DRIVE_OP_FLUSH || record.arrival_ns < 0)
		return STREAM_WRONG;
	*request = (struct drive_request){
		.id = number,
		.op = (enum drive_op)record.op,
		.fua = record.fua,
		.sector = record.op == DRIVE_OP_FLUSH ? 0 : record.sector,
		.sectors = record.op == DRIVE_OP_FLUSH ? 0 : record.sectors,
		.arrival_ns = record.arrival_ns,
	};
	return STREAM_MORE;
}

int stream_write(FILE *file, bool text, const struct cost_row *row)
{
	int written;

	if (!text)
		return fwrite(row, sizeof(*row), 1, file) == 1 ? 0 : -1;
	written = fprintf(file,
			  "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
			  " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64
			  " %u %u %u %u %u %u %u\n",
			  row->request, row->issue_ns, row->arrival_ns, row->start_ns, row->end_ns,
			  row->overhead_ns, row->seek_ns, row->rotation_ns, row->transfer_ns,
			  row->wait_ns, row->sector, row->sectors, row->cylinder, row->queued,
			  row->op, row->how, row->fua, row->by_head);
	return written < 0 ? -1 : 0;
}
