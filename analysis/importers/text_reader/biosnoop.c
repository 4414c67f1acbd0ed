// SPDX-License-Identifier: BSD-2-Clause
/*
 * biosnoop of bcc and of libbpf-tools: a row a request, printed when it ends, under a header that names its columns.
 * Times count from the first row. A row becomes the request's events: allocated or inserted (with -Q), issued, ended.
 */
#include "events.h"

/* Requests can have begun before the first row; no disk keeps one longer. */
#define SHIFT_NS      1000000000000ULL
#define MS_DIGITS_NS  1000 /* a millisecond as a fixed-point number is that much too large in ns */
#define INSERT_DIGITS 3	   /* libbpf-tools' number of digits; bcc has two */

static const struct heading {
	const char *name;
	enum column column;
} headings[] = {
	{ "PID", COLUMN_PID },	      { "DISK", COLUMN_DISK },	     { "T", COLUMN_RWBS },
	{ "SECTOR", COLUMN_SECTOR },  { "BYTES", COLUMN_BYTES },     { "P", COLUMN_PATTERN },
	{ "QUE(ms)", COLUMN_QUEUED }, { "LAT(ms)", COLUMN_LATENCY },
};

bool biosnoop_header(struct biosnoop *biosnoop, struct text line)
{
	unsigned int count = 0, seen = 0;
	enum column columns[MAX_COLUMNS];

	if (!text_is(scan_token(&line), "TIME(s)") || !text_is(scan_token(&line), "COMM"))
		return false;
	for (;; count++) {
		struct text name = scan_token(&line);

		if (!text_left(&name))
			break;
		if (count == MAX_COLUMNS)
			return false;
		columns[count] = COLUMN_OTHER;
		for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
			if (text_is(name, headings[i].name))
				columns[count] = headings[i].column;
		seen |= 1U << columns[count];
	}
	for (enum column column = COLUMN_PID; column <= COLUMN_LATENCY; column++)
		if (!(seen >> column & 1) && column != COLUMN_PATTERN && column != COLUMN_QUEUED)
			return false;
	memcpy(biosnoop->columns, columns, sizeof(columns));
	biosnoop->count = count;
	return true;
}

/* The last blank-separated word of the line, taken off it. */
static struct text last_token(struct text *line)
{
	struct text token;

	while (line->end > line->at && is_blank(line->end[-1]))
		line->end--;
	token.end = line->end;
	while (line->end > line->at && !is_blank(line->end[-1]))
		line->end--;
	token.at = line->end;
	return token;
}

/* A disk has a name only: it is numbered, with the major number that no disk has. 0: there are too many. */
static uint32_t device_of(struct biosnoop *biosnoop, struct text name)
{
	size_t length = text_left(&name);

	length = length < DISK_BYTES ? length : DISK_BYTES - 1;
	for (unsigned int i = 0; i < biosnoop->disk_count; i++)
		if (!memcmp(biosnoop->disks[i], name.at, length) && !biosnoop->disks[i][length])
			return i + 1;
	if (biosnoop->disk_count == MAX_DISKS)
		return 0;
	memcpy(biosnoop->disks[biosnoop->disk_count], name.at, length);
	return ++biosnoop->disk_count;
}

struct row {
	uint64_t end_ns, latency_ns, queued_ns;
	struct text comm, rwbs;
	uint32_t pid;
	bool has_queued, inserted;
	struct said said;
};

static bool read_number(struct text text, uint64_t most, uint64_t *value)
{
	return scan_number(&text, most, value) && text.at == text.end;
}

static bool read_cell(struct biosnoop *biosnoop, enum column column, struct text cell,
		      struct row *row)
{
	unsigned int digits;
	uint64_t value;

	switch (column) {
	case COLUMN_PID:
		if (!read_number(cell, UINT32_MAX, &value))
			return false;
		row->pid = value;
		return true;
	case COLUMN_DISK:
		row->said.device = device_of(biosnoop, cell);
		return row->said.device;
	case COLUMN_RWBS:
		row->rwbs = cell;
		return true;
	case COLUMN_SECTOR:
		if (text_is(cell, "-1")) /* of a flush */
			return true;
		if (!read_number(cell, UINT64_MAX, &row->said.sector))
			return false;
		if (row->said.sector == UINT64_MAX)
			row->said.sector = 0;
		return true;
	case COLUMN_BYTES:
		if (!read_number(cell, UINT32_MAX, &value))
			return false;
		row->said.bytes = value & ~511U;
		return true;
	case COLUMN_LATENCY:
		if (!fixed_point(cell, UINT32_MAX, &row->latency_ns, &digits))
			return false;
		row->latency_ns /= MS_DIGITS_NS;
		if (digits > biosnoop->latency_digits)
			biosnoop->latency_digits = digits;
		return true;
	case COLUMN_QUEUED:
		if (*cell.at == '-') /* -1: it was never inserted */
			return true;
		if (!fixed_point(cell, UINT32_MAX, &row->queued_ns, &digits))
			return false;
		row->queued_ns /= MS_DIGITS_NS;
		row->has_queued = true;
		row->inserted = digits == INSERT_DIGITS;
		return true;
	default:
		return true;
	}
}

/* From the right, as a name can hold blanks. */
static bool read_cells(struct reader *reader, struct text line, struct row *row)
{
	struct biosnoop *biosnoop = &reader->biosnoop;
	struct text time = scan_token(&line);
	unsigned int digits;

	if (!fixed_point(time, UINT32_MAX, &row->end_ns, &digits))
		return false;
	if (digits > reader->time_digits)
		reader->time_digits = digits;
	for (unsigned int i = biosnoop->count; i-- > 0;) {
		struct text cell = last_token(&line);

		if (!text_left(&cell) || !read_cell(biosnoop, biosnoop->columns[i], cell, row))
			return false;
	}
	while (line.end > line.at && is_blank(line.end[-1]))
		line.end--;
	skip_blanks(&line);
	row->comm = line;
	return true;
}

bool biosnoop_row(struct reader *reader, struct text line)
{
	struct row row = { 0 };
	struct head head = { 0 };
	uint64_t issue_ns;
	size_t length;

	if (!read_cells(reader, line, &row))
		return false;
	row.end_ns += SHIFT_NS;
	if (row.latency_ns + row.queued_ns >= row.end_ns)
		return false;
	issue_ns = row.end_ns - row.latency_ns;
	length = text_left(&row.comm);
	if (!text_is(row.comm, "?")) /* nobody known */
		memcpy(row.said.comm, row.comm.at, length < COMM_BYTES ? length : COMM_BYTES - 1);
	head.pid = row.pid;
	if (row.has_queued) {
		head.t_ns = issue_ns - row.queued_ns;
		row.said.action = row.inserted ? BLK_TA_INSERT : BLK_TA_GETRQ;
		emit(reader, &head, &row.said, row.rwbs);
	}
	head.t_ns = issue_ns;
	row.said.action = BLK_TA_ISSUE;
	emit(reader, &head, &row.said, row.rwbs);
	head.t_ns = row.end_ns;
	row.said.action = BLK_TA_COMPLETE;
	emit(reader, &head, &row.said, row.rwbs);
	return true;
}
