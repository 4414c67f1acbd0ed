// SPDX-License-Identifier: BSD-2-Clause
/* Parts of events, as the kernel prints them (include/trace/events/block.h, kernel/trace/blktrace.c). */
#include <endian.h>

#include "events.h"

#define SECTOR_BYTES 512
#define MAX_SECTORS  (UINT32_MAX / SECTOR_BYTES)

bool scan_device(struct text *text, uint32_t *device)
{
	uint64_t major, minor;

	if (!scan_number(text, (1 << 12) - 1, &major) || !scan_word(text, ",") ||
	    !scan_number(text, (1 << 20) - 1, &minor))
		return false;
	*device = major << 20 | minor;
	return true;
}

bool scan_place(struct text *text, struct said *said)
{
	uint64_t sectors;

	if (!scan_number(text, UINT64_MAX, &said->sector) || !scan_word(text, "+") ||
	    !scan_number(text, MAX_SECTORS, &sectors))
		return false;
	said->no_place = said->sector == UINT64_MAX;
	if (said->no_place)
		said->sector = 0;
	said->bytes = sectors * SECTOR_BYTES;
	return true;
}

/* A comm can hold brackets and blanks, but no more than 15 bytes. */
bool scan_comm(struct text *text, char *comm)
{
	size_t length = 0;

	if (!scan_word(text, "["))
		return false;
	for (size_t i = 0; i < COMM_BYTES && i < text_left(text); i++)
		if (text->at[i] == ']')
			length = i + 1;
	if (!length)
		return false;
	memset(comm, 0, COMM_BYTES);
	memcpy(comm, text->at, length - 1);
	text->at += length;
	return true;
}

bool scan_error(struct text *text, struct said *said)
{
	uint64_t error;
	bool negative;

	if (!scan_word(text, "["))
		return false;
	negative = scan_word(text, "-");
	if (!scan_number(text, UINT32_MAX, &error) || !scan_word(text, "]"))
		return false;
	said->error = negative ? -(int32_t)error : (int32_t)error;
	return true;
}

bool scan_split(struct text *text, struct said *said)
{
	uint64_t where;

	if (!scan_number(text, UINT64_MAX / SECTOR_BYTES, &said->sector) || !scan_word(text, "/") ||
	    !scan_number(text, UINT64_MAX / SECTOR_BYTES, &where) || !scan_comm(text, said->comm))
		return false;
	/* The text does not have the length of a split: the first part at least. */
	if (where > said->sector && where - said->sector <= MAX_SECTORS)
		said->bytes = (where - said->sector) * SECTOR_BYTES;
	said->pdu[0] = htobe64(where);
	said->pdu_len = sizeof(said->pdu[0]);
	return true;
}

bool scan_remap(struct text *text, struct said *said)
{
	uint64_t where;
	uint32_t from;

	if (!scan_place(text, said) || !scan_word(text, "<-") || !scan_word(text, "(") ||
	    !scan_device(text, &from) || !scan_word(text, ")") ||
	    !scan_number(text, UINT64_MAX, &where))
		return false;
	/* struct blk_io_trace_remap: from, to, sector */
	said->pdu[0] = htobe64((uint64_t)from << 32 | said->device);
	said->pdu[1] = htobe64(where);
	said->pdu_len = sizeof(said->pdu);
	return true;
}
