// SPDX-License-Identifier: BSD-2-Clause
/* The block:* events, as perf, ftrace and trace-cmd print them by the kernel's own format. */
#include <endian.h>

#include "events.h"

enum shape {
	SHAPE_BIO,	    /* maj,min rwbs sector + sectors [comm] */
	SHAPE_BIO_DONE,	    /* maj,min rwbs sector + sectors [error] */
	SHAPE_REQUEST,	    /* maj,min rwbs bytes (command) sector + sectors [priority] [comm] */
	SHAPE_REQUEST_DONE, /* maj,min rwbs (command) sector + sectors [priority] [error] */
	SHAPE_SPLIT,
	SHAPE_REMAP,
	SHAPE_PLUG,   /* [comm] */
	SHAPE_UNPLUG, /* [comm] requests */
};

static const struct tracepoint {
	const char *name;
	uint32_t action;
	enum shape shape;
} tracepoints[] = {
	{ "block_bio_queue", BLK_TA_QUEUE, SHAPE_BIO },
	{ "block_bio_backmerge", BLK_TA_BACKMERGE, SHAPE_BIO },
	{ "block_bio_frontmerge", BLK_TA_FRONTMERGE, SHAPE_BIO },
	{ "block_bio_bounce", BLK_TA_BOUNCE, SHAPE_BIO },
	{ "block_bio_complete", BLK_TA_COMPLETE, SHAPE_BIO_DONE },
	{ "block_bio_remap", BLK_TA_REMAP, SHAPE_REMAP },
	{ "block_getrq", BLK_TA_GETRQ, SHAPE_BIO },
	{ "block_sleeprq", BLK_TA_SLEEPRQ, SHAPE_BIO },
	{ "block_split", BLK_TA_SPLIT, SHAPE_SPLIT },
	{ "block_plug", BLK_TA_PLUG, SHAPE_PLUG },
	{ "block_unplug", BLK_TA_UNPLUG_IO, SHAPE_UNPLUG },
	{ "block_rq_insert", BLK_TA_INSERT, SHAPE_REQUEST },
	{ "block_rq_issue", BLK_TA_ISSUE, SHAPE_REQUEST },
	{ "block_rq_merge", BLK_TA_BACKMERGE, SHAPE_REQUEST },
	{ "block_rq_requeue", BLK_TA_REQUEUE, SHAPE_REQUEST_DONE },
	{ "block_rq_complete", BLK_TA_COMPLETE, SHAPE_REQUEST_DONE },
	{ "block_rq_remap", BLK_TA_REMAP, SHAPE_REMAP },
};

/* "(command)": the bytes of a driver's own command, empty for all else. */
static bool scan_command(struct text *text, bool *any)
{
	struct text from = *text;

	if (!scan_word(&from, "("))
		return false;
	*any = from.at < from.end && *from.at != ')';
	while (from.at < from.end && *from.at != ')')
		from.at++;
	if (from.at == from.end)
		return false;
	text->at = from.at + 1;
	return true;
}

/* "be,0,4" of newer kernels, which perf prints as "0x2,0,4". */
static void skip_priority(struct text *text)
{
	skip_blanks(text);
	if (text->at < text->end && *text->at != '[')
		scan_token(text);
}

static bool scan_request(struct text *text, struct said *said, struct text rwbs, bool has_bytes)
{
	uint64_t bytes = 0;
	bool command, nothing = text_left(&rwbs) && *rwbs.at == 'N';

	if (has_bytes && !scan_number(text, UINT32_MAX, &bytes))
		return false;
	if (!scan_command(text, &command) || !scan_place(text, said))
		return false;
	skip_priority(text);
	/* A driver's command has no sectors, but bytes; when it ends, these are called sectors. */
	if (command || (nothing && (said->no_place || !said->bytes))) {
		said->action |= CATEGORY(PC);
		if (!said->bytes)
			said->bytes = bytes & ~511U;
	}
	return true;
}

static bool scan_shape(struct text *text, enum shape shape, struct said *said, struct text *rwbs)
{
	uint64_t requests;

	said->of_thread = shape == SHAPE_PLUG || shape == SHAPE_UNPLUG;
	if (shape == SHAPE_PLUG)
		return scan_comm(text, said->comm);
	if (shape == SHAPE_UNPLUG) {
		if (!scan_comm(text, said->comm) || !scan_number(text, UINT32_MAX, &requests))
			return false;
		said->pdu[0] = htobe64(requests);
		said->pdu_len = sizeof(said->pdu[0]);
		return true;
	}
	if (!scan_device(text, &said->device))
		return false;
	*rwbs = scan_token(text);
	switch (shape) {
	case SHAPE_BIO:
		return scan_place(text, said) && scan_comm(text, said->comm);
	case SHAPE_BIO_DONE:
		return scan_place(text, said) && scan_error(text, said);
	case SHAPE_REQUEST:
		return scan_request(text, said, *rwbs, true) && scan_comm(text, said->comm);
	case SHAPE_REQUEST_DONE:
		return scan_request(text, said, *rwbs, false) && scan_error(text, said);
	case SHAPE_SPLIT:
		return scan_split(text, said);
	default:
		return scan_remap(text, said);
	}
}

bool read_tracepoint(struct reader *reader, const struct head *head, struct text name,
		     struct text text)
{
	struct text rwbs = { 0 };

	for (size_t i = 0; i < sizeof(tracepoints) / sizeof(tracepoints[0]); i++) {
		struct said said = { .action = tracepoints[i].action };

		if (!text_is(name, tracepoints[i].name))
			continue;
		if (!scan_shape(&text, tracepoints[i].shape, &said, &rwbs))
			return false;
		emit(reader, head, &said, rwbs);
		return true;
	}
	reader->counts.other_events++;
	return true;
}
