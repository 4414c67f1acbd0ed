/* SPDX-License-Identifier: BSD-2-Clause */
/* Scans a line from left to right. Each function moves `at` only if it succeeds. */
#ifndef SEEKMETER_TEXT_SCAN_H
#define SEEKMETER_TEXT_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
	const char *at, *end;
};

static inline size_t text_left(const struct text *text)
{
	return text->end - text->at;
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static inline void skip_blanks(struct text *text)
{
	while (text->at < text->end && is_blank(*text->at))
		text->at++;
}

/* This literal, after blanks. */
static inline bool scan_word(struct text *text, const char *word)
{
	struct text from = *text;
	size_t length = strlen(word);

	skip_blanks(&from);
	if (text_left(&from) < length || memcmp(from.at, word, length))
		return false;
	text->at = from.at + length;
	return true;
}

/* A number of at most this value, after blanks. */
static inline bool scan_number(struct text *text, uint64_t most, uint64_t *value)
{
	const char *at;
	uint64_t found = 0;

	skip_blanks(text);
	for (at = text->at; at < text->end && is_digit(*at); at++) {
		unsigned int digit = *at - '0';

		if (found > (UINT64_MAX - digit) / 10)
			return false;
		found = found * 10 + digit;
	}
	if (at == text->at || found > most)
		return false;
	text->at = at;
	*value = found;
	return true;
}

/* What stands up to the next blank, after blanks; empty at the line's end. */
static inline struct text scan_token(struct text *text)
{
	struct text token;

	skip_blanks(text);
	token.at = text->at;
	while (text->at < text->end && !is_blank(*text->at))
		text->at++;
	token.end = text->at;
	return token;
}

/* A whole text that is a number with a fraction, in units of 10^-9. `digits`: how many the fraction had. */
static inline bool fixed_point(struct text text, uint64_t most, uint64_t *value,
			       unsigned int *digits)
{
	uint64_t whole, part = 0, unit = 1000000000;

	if (!scan_number(&text, most, &whole) || text.at == text.end || *text.at++ != '.')
		return false;
	*digits = 0;
	for (; text.at < text.end; text.at++) {
		if (!is_digit(*text.at))
			return false;
		++*digits;
		unit /= 10;
		part += unit * (*text.at - '0');
	}
	*value = whole * 1000000000 + part;
	return *digits > 0;
}

static inline bool text_is(struct text text, const char *word)
{
	return text_left(&text) == strlen(word) && !memcmp(text.at, word, text_left(&text));
}

#endif
