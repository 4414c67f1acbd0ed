// SPDX-License-Identifier: BSD-2-Clause
#include <stdlib.h>
#include <string.h>

#include "json.h"

#define DEPTH_MAX	 64 /* of objects and arrays in each other */
#define NUMBER_BYTES_MAX 40 /* written out in full a double has fewer */

static const struct json nothing;

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
		at++;
	return at;
}

/* Behind the string that begins AT; NULL: it does not end. */
static const char *skip_string(const char *at, const char *end)
{
	for (at++; at < end; at++) {
		if (*at == '"')
			return at + 1;
		if (*at == '\\')
			at++;
	}
	return NULL;
}

/* Behind the value that begins AT, whatever it is: brackets are counted, strings passed over. NULL: it does not end. */
static const char *skip_value(const char *at, const char *end)
{
	int depth = 0;

	while (at != NULL && at < end) {
		char byte = *at;

		if (byte == '"') {
			at = skip_string(at, end);
		} else if (byte == '{' || byte == '[') {
			if (++depth > DEPTH_MAX)
				return NULL;
			at++;
		} else if (depth == 0 && (byte == ',' || byte == '}' || byte == ']')) {
			return at; /* behind a number or a word */
		} else {
			if (byte == '}' || byte == ']')
				depth--;
			at++;
		}
		if (depth == 0 && at != NULL && (byte == '"' || byte == '}' || byte == ']'))
			return at;
	}
	return NULL;
}

static bool begins(struct json value, char bracket)
{
	return value.at != NULL && value.at < value.end && *value.at == bracket;
}

/* The value that comes behind the one AT in its object or array; not there: that was the last. */
static struct json next(const char *at, const char *end)
{
	at = skip_value(at, end);
	if (at == NULL)
		return nothing;
	at = skip_blanks(at, end);
	if (at >= end || *at != ',')
		return nothing;
	return (struct json){ skip_blanks(at + 1, end), end };
}

struct json json_object(const char *text, size_t bytes)
{
	const char *at = memchr(text, '{', bytes);

	return at != NULL ? (struct json){ at, text + bytes } : nothing;
}

struct json json_member(struct json object, const char *name)
{
	size_t bytes = strlen(name);
	struct json key;

	if (!begins(object, '{'))
		return nothing;
	key = (struct json){ skip_blanks(object.at + 1, object.end), object.end };
	while (begins(key, '"')) {
		const char *behind = skip_string(key.at, key.end);
		const char *value = behind ? skip_blanks(behind, key.end) : NULL;

		if (value == NULL || value >= key.end || *value != ':')
			return nothing;
		value = skip_blanks(value + 1, key.end);
		if ((size_t)(behind - key.at) == bytes + 2 && memcmp(key.at + 1, name, bytes) == 0)
			return (struct json){ value, key.end };
		key = next(value, key.end);
	}
	return nothing;
}

struct json json_element(struct json array, size_t index)
{
	struct json value;

	if (!begins(array, '['))
		return nothing;
	value = (struct json){ skip_blanks(array.at + 1, array.end), array.end };
	if (begins(value, ']'))
		return nothing;
	while (value.at != NULL && index-- > 0)
		value = next(value.at, value.end);
	return value;
}

bool json_number(struct json value, double *number)
{
	char digits[NUMBER_BYTES_MAX + 1];
	size_t bytes = 0;
	char *behind;
	double found;

	while (value.at != NULL && bytes < NUMBER_BYTES_MAX && value.at + bytes < value.end &&
	       strchr("+-.0123456789eE", value.at[bytes]) != NULL && value.at[bytes] != '\0')
		bytes++;
	memcpy(digits, value.at != NULL ? value.at : "", bytes);
	digits[bytes] = '\0';
	found = strtod(digits, &behind);
	if (bytes == 0 || *behind != '\0')
		return false;
	*number = found;
	return true;
}

bool json_text(struct json value, char *text, size_t room)
{
	const char *behind = begins(value, '"') ? skip_string(value.at, value.end) : NULL;
	size_t bytes = 0;

	if (behind == NULL || room == 0)
		return false;
	for (const char *at = value.at + 1; at < behind - 1 && bytes < room - 1; at++) {
		text[bytes++] = *at == '\\' || *at == '"' || (unsigned char)*at < ' ' ? '_' : *at;
		if (*at == '\\')
			at++;
	}
	text[bytes] = '\0';
	return true;
}
