// SPDX-License-Identifier: BSD-2-Clause
/* Events with the letters of blkparse: its own text, and that of the kernel's blk tracer. */
#include <endian.h>

#include "events.h"

static const struct letters {
	const char *letters;
	uint32_t action;
} actions[] = {
	{ "Q", BLK_TA_QUEUE },	   { "M", BLK_TA_BACKMERGE },	  { "F", BLK_TA_FRONTMERGE },
	{ "G", BLK_TA_GETRQ },	   { "S", BLK_TA_SLEEPRQ },	  { "R", BLK_TA_REQUEUE },
	{ "D", BLK_TA_ISSUE },	   { "C", BLK_TA_COMPLETE },	  { "P", BLK_TA_PLUG },
	{ "U", BLK_TA_UNPLUG_IO }, { "UT", BLK_TA_UNPLUG_TIMER }, { "I", BLK_TA_INSERT },
	{ "X", BLK_TA_SPLIT },	   { "B", BLK_TA_BOUNCE },	  { "A", BLK_TA_REMAP },
};

/* "(since the event before)", of blkparse -t */
static void skip_brackets(struct text *text)
{
	struct text from = *text;

	if (!scan_word(&from, "("))
		return;
	while (from.at < from.end && *from.at != ')')
		from.at++;
	if (from.at < from.end)
		text->at = from.at + 1;
}

/* A driver's own command: "bytes (command) [comm]", or "(command) [error]" when it ends. */
static bool scan_command(struct text *text, struct said *said, bool done)
{
	uint64_t bytes = 0;

	if (!done && !scan_number(text, UINT32_MAX, &bytes))
		return false;
	if (!scan_word(text, "("))
		return false;
	text->at--;
	skip_brackets(text);
	said->action |= CATEGORY(PC);
	return done ? scan_error(text, said) : scan_comm(text, said->comm);
}

/* "sector + sectors"; without sectors only the sector, when it ends, or nothing. */
static bool scan_request(struct text *text, struct said *said, bool done)
{
	struct text from = *text;
	uint64_t sector;

	if (scan_command(&from, said, done))
		return true;
	from = *text;
	if (scan_place(&from, said))
		*text = from;
	else if (done && scan_number(text, UINT64_MAX, &sector))
		said->sector = sector == UINT64_MAX ? 0 : sector;
	skip_brackets(text);
	return done ? scan_error(text, said) : scan_comm(text, said->comm);
}

static bool scan_plug(struct text *text, struct said *said, bool unplug)
{
	uint64_t requests;

	if (!scan_comm(text, said->comm))
		return false;
	if (unplug) {
		if (!scan_number(text, UINT32_MAX, &requests))
			return false;
		said->pdu[0] = htobe64(requests);
		said->pdu_len = sizeof(said->pdu[0]);
	}
	return true;
}

static bool scan_event(struct text *text, struct said *said)
{
	switch (said->action) {
	case BLK_TA_PLUG:
		return scan_plug(text, said, false);
	case BLK_TA_UNPLUG_IO:
	case BLK_TA_UNPLUG_TIMER:
		return scan_plug(text, said, true);
	case BLK_TA_SPLIT:
		return scan_split(text, said);
	case BLK_TA_REMAP:
		return scan_remap(text, said);
	default:
		return scan_request(text, said, said->action == BLK_TA_COMPLETE);
	}
}

bool read_classic(struct reader *reader, const struct head *head, uint32_t device, struct text text)
{
	struct text letters = scan_token(&text), rwbs;

	if (text_is(letters, "m")) { /* a message */
		reader->counts.other_events++;
		return true;
	}
	rwbs = scan_token(&text);
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		struct said said = { .action = actions[i].action, .device = device };

		if (!text_is(letters, actions[i].letters))
			continue;
		if (!scan_event(&text, &said))
			return false;
		emit(reader, head, &said, rwbs);
		return true;
	}
	return false;
}
