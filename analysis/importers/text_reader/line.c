// SPDX-License-Identifier: BSD-2-Clause
/*
 * Recognises a line's format and parses it. perf script and ftrace have the same order, thread, CPU, time, event, and
 * differ in details:
 *
 *    comm  tid [cpu] seconds: period block:block_rq_issue: what     perf: CPU and period may be left out, pid/tid
 *    comm-tid (tgid) [cpu] flags seconds: block_rq_issue: what      ftrace, trace-cmd: tgid and flags may be left out
 *    comm-tid [cpu] flags seconds:   8,0  D  R what                 the blk tracer's text
 *      8,0  cpu sequence seconds tid  D  R what                     blkparse, and without sequence blk_classic
 */
#include "events.h"

#define MAX_SECONDS (1ULL << 31)

static void trim(struct text *text)
{
	while (text->end > text->at && is_blank(text->end[-1]))
		text->end--;
}

/* Takes "[digits]" off the end. */
static bool take_cpu(struct text *text, uint32_t *cpu)
{
	const char *open = text->end;
	struct text number;
	uint64_t value;

	if (open - text->at < 3 || open[-1] != ']')
		return false;
	for (open--; open > text->at && is_digit(open[-1]); open--)
		;
	if (open == text->at || open[-1] != '[')
		return false;
	number = (struct text){ open, text->end - 1 };
	if (!scan_number(&number, UINT32_MAX, &value))
		return false;
	*cpu = value;
	text->end = open - 1;
	return true;
}

static void drop_token(struct text *text)
{
	while (text->end > text->at && !is_blank(text->end[-1]))
		text->end--;
	trim(text);
}

/* The thread's id, at the end of the rest of the line; 0 if there is none. */
static uint32_t pid_of(struct text text, bool perf)
{
	const char *begin = text.end;
	struct text number;
	uint64_t pid;

	while (begin > text.at && is_digit(begin[-1]))
		begin--;
	number = (struct text){ begin, text.end };
	/* "comm-tid" of ftrace; perf: "tid" or "pid/tid" */
	if (begin > text.at && !is_blank(begin[-1]) && begin[-1] != (perf ? '/' : '-'))
		return 0;
	return scan_number(&number, UINT32_MAX, &pid) ? pid : 0;
}

static void read_thread(struct text text, bool perf, struct head *head)
{
	struct text all;

	trim(&text);
	all = text;
	if (!take_cpu(&text, &head->cpu)) {
		drop_token(&text); /* ftrace's flags */
		if (!take_cpu(&text, &head->cpu))
			text = all;
	}
	trim(&text);
	if (!perf && text.end > text.at && text.end[-1] == ')') { /* the process */
		while (text.end > text.at && *text.end != '(')
			text.end--;
		trim(&text);
	}
	head->pid = pid_of(text, perf);
}

/* True: this colon ends a time; `text` then is what precedes it. */
static bool time_before(struct text *text, const char *colon, struct head *head,
			unsigned int *digits)
{
	const char *begin = colon;

	while (begin > text->at && (is_digit(begin[-1]) || begin[-1] == '.'))
		begin--;
	if (begin == colon || (begin > text->at && !is_blank(begin[-1])))
		return false;
	if (!fixed_point((struct text){ begin, colon }, MAX_SECONDS, &head->t_ns, digits))
		*digits = 0; /* a number, but no seconds */
	text->end = begin;
	return true;
}

static void read_lost(struct reader *reader, uint32_t cpu, struct text text)
{
	uint64_t count = 1; /* not every such line has a number */

	while (text.at < text.end && !is_digit(*text.at))
		text.at++;
	if (text.at < text.end)
		scan_number(&text, UINT64_MAX, &count);
	emit_lost(reader, cpu, count);
}

static void count_event(struct reader *reader, enum format format, unsigned int digits, bool good)
{
	if (!good) {
		reader->counts.unreadable++;
		return;
	}
	reader->counts.of_format[format]++;
	if (digits > reader->time_digits)
		reader->time_digits = digits;
}

/* Parses what follows the time. False: it is no event. */
static bool read_event(struct reader *reader, struct text thread, struct head *head,
		       unsigned int digits, struct text text)
{
	static const char prefix[] = "block:";
	struct text name, from = text;
	uint32_t device;
	bool perf;

	if (scan_device(&from, &device) && from.at < from.end && is_blank(*from.at)) {
		read_thread(thread, false, head);
		if (!digits)
			reader->counts.untimed++;
		else
			count_event(reader, FORMAT_BLK, digits,
				    read_classic(reader, head, device, from));
		return true;
	}
	name = scan_token(&text);
	from = name;
	if (scan_number(&from, UINT64_MAX, &(uint64_t){ 0 }) && from.at == from.end)
		name = scan_token(&text); /* that was the period */
	if (text_left(&name) >= 16 && !memcmp(name.at, "PERF_RECORD_LOST", 16)) {
		read_thread(thread, true, head);
		read_lost(reader, head->cpu, text);
		return true;
	}
	if (text_is(name, "<stack")) /* trace>, and then its frames */
		return true;
	if (text_left(&name) < 2 || name.end[-1] != ':')
		return false;
	name.end--;
	perf = scan_word(&name, prefix);
	if (text_left(&name) < 6 || memcmp(name.at, "block_", 6)) {
		reader->counts.other_events++;
		return true;
	}
	if (!digits) {
		reader->counts.untimed++;
		return true;
	}
	read_thread(thread, perf, head);
	count_event(reader, perf ? FORMAT_PERF : FORMAT_FTRACE, digits,
		    read_tracepoint(reader, head, name, text));
	return true;
}

/* A line with "time:" and an event behind it. */
static bool read_timed(struct reader *reader, struct text line)
{
	const char *colon = line.at;

	while ((colon = memchr(colon, ':', line.end - colon))) {
		struct text thread = line, text = { colon + 1, line.end };
		struct head head = { 0 };
		unsigned int digits;

		colon++;
		if (text.at < text.end && is_blank(*text.at) &&
		    time_before(&thread, colon - 1, &head, &digits) &&
		    read_event(reader, thread, &head, digits, text))
			return true;
	}
	return false;
}

/* blkparse, or its form from the kernel, which has no sequence number. */
static bool read_blkparse(struct reader *reader, struct text line)
{
	struct head head = { 0 };
	unsigned int digits;
	uint64_t cpu, pid;
	uint32_t device;
	struct text time;

	if (!scan_device(&line, &device) || !scan_number(&line, UINT32_MAX, &cpu))
		return false;
	time = scan_token(&line);
	if (!fixed_point(time, MAX_SECONDS, &head.t_ns, &digits)) {
		time = scan_token(&line);
		if (!fixed_point(time, MAX_SECONDS, &head.t_ns, &digits))
			return false;
	}
	if (!scan_number(&line, UINT32_MAX, &pid))
		return false;
	head.cpu = cpu;
	head.pid = pid;
	count_event(reader, FORMAT_BLKPARSE, digits, read_classic(reader, &head, device, line));
	return true;
}

/* "CPU:0 [LOST 5 EVENTS]", "CPU:0 [5 EVENTS DROPPED]", and without a number */
static bool read_mark(struct reader *reader, struct text line)
{
	uint64_t cpu;

	if (!scan_word(&line, "CPU:") || !scan_number(&line, UINT32_MAX, &cpu) ||
	    !scan_word(&line, "[") || !memchr(line.at, ']', text_left(&line)) ||
	    !memmem(line.at, text_left(&line), "EVENTS", 6))
		return false;
	read_lost(reader, cpu, line);
	return true;
}

/* A frame of a call chain, or what the tools say beside the events. */
static bool is_aside(struct text line)
{
	bool indented = line.at < line.end && is_blank(*line.at);
	struct text token = scan_token(&line);
	uint64_t number;

	if (text_is(token, "=>") || scan_word(&token, "cpus="))
		return true;
	if (text_is(token, "CPU") && scan_number(&line, UINT32_MAX, &number) &&
	    scan_word(&line, "is empty"))
		return true;
	while (token.at < token.end &&
	       (is_digit(*token.at) || (*token.at >= 'a' && *token.at <= 'f')))
		token.at++;
	return indented && token.at == token.end; /* an address */
}

void read_line(struct reader *reader, struct text line)
{
	struct text from = line;

	if (line.end > line.at && line.end[-1] == '\r')
		line.end--;
	skip_blanks(&from);
	if (from.at >= line.end || *from.at == '#')
		return;
	reader->counts.lines++;
	if (read_timed(reader, line) || read_mark(reader, line) ||
	    biosnoop_header(&reader->biosnoop, line) || read_blkparse(reader, line))
		return;
	if (reader->biosnoop.count && is_digit(*from.at))
		count_event(reader, FORMAT_BIOSNOOP, 0, biosnoop_row(reader, line));
	else if (!is_aside(line))
		reader->counts.strange++;
}
