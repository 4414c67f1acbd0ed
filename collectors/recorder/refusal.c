// SPDX-License-Identifier: BSD-2-Clause
/* Picks the decisive line out of libbpf's warnings and the verifier's log; see refusal.h. */
#include "refusal.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 200

/* A line of higher worth replaces a line of lower worth; of two lines of equal worth the first stays. */
enum worth { WORTH_NOTHING, WORTH_SOMETHING, WORTH_A_NAME, WORTH_A_LOG };

static char line[LINE_BYTES];
static enum worth worth;

static void keep_line(enum worth new_worth, const char *subject, const char *text, size_t bytes)
{
	int length;

	if (new_worth <= worth)
		return;
	worth = new_worth;
	length = snprintf(line, sizeof(line), "%s: %.*s", subject, (int)bytes, text);
	if (length >= (int)sizeof(line))
		strcpy(line + sizeof(line) - 4, "...");
}

/*
 * Writes "BPF program NAME" for "prog 'NAME': ", or "BPF map NAME". Returns the text after the prefix; NULL: no prefix.
 */
static const char *after_subject(const char *warning, char *subject, size_t room)
{
	char name[64];
	int end = 0;

	if (sscanf(warning, "prog '%63[^']': %n", name, &end) == 1 && end)
		snprintf(subject, room, "BPF program %s", name);
	else if (sscanf(warning, "map '%63[^']': %n", name, &end) == 1 && end)
		snprintf(subject, room, "BPF map %s", name);
	else
		return NULL;
	return warning + end;
}

/* True for a message of the verifier: no instruction, source line, register state or count. */
static bool is_message(const char *text, size_t bytes)
{
	static const char *const other_lines[] = { ";",
						   "processed ",
						   "from ",
						   "func#",
						   "func '",
						   "stack depth ",
						   "verification time ",
						   "mark_precise",
						   "R0",
						   "-- ",
						   "max_states",
						   "arg#" };
	size_t digits = 0;

	for (size_t i = 0; i < sizeof(other_lines) / sizeof(other_lines[0]); i++)
		if (!strncmp(text, other_lines[i], strlen(other_lines[i])))
			return false;
	while (digits < bytes && isdigit((unsigned char)text[digits]))
		digits++;
	return bytes && !isspace((unsigned char)text[0]) && !(digits && text[digits] == ':');
}

static void note_log(const char *subject, const char *log)
{
	const char *last = NULL;
	size_t bytes, last_bytes = 0;

	for (; *log; log += bytes + (log[bytes] == '\n')) {
		bytes = strcspn(log, "\n");
		if (!is_message(log, bytes))
			continue;
		last = log;
		last_bytes = bytes;
	}
	if (last)
		keep_line(WORTH_A_LOG, subject, last, last_bytes);
}

/* Length of the first sentence in bytes; libbpf's later sentences only guess at the reason. */
static size_t first_sentence(const char *text)
{
	const char *end = strstr(text, ". ");
	size_t bytes = strcspn(text, "\n");

	return end && (size_t)(end - text) < bytes ? (size_t)(end - text) : bytes;
}

void refusal_note(const char *warning)
{
	static const char load_failed[] = "BPF program load failed: ";
	char subject[96];
	const char *text;

	if (!strncmp(warning, "libbpf: ", 8))
		warning += 8;
	text = after_subject(warning, subject, sizeof(subject));
	if (text && !strncmp(text, load_failed, sizeof(load_failed) - 1))
		text += sizeof(load_failed) - 1;
	if (!text)
		keep_line(WORTH_SOMETHING, "the BPF programs", warning, first_sentence(warning));
	else if (!strncmp(text, "-- BEGIN PROG LOAD LOG --\n", 26))
		note_log(subject, text + 26);
	else
		keep_line(WORTH_A_NAME, subject, text, strcspn(text, "\n"));
}

const char *refusal_line(void)
{
	return line;
}

void refusal_forget(void)
{
	line[0] = 0;
	worth = WORTH_NOTHING;
}
