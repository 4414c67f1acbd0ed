// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads values out of a JSON text that another program wrote. Nothing is built: a value is its place in the text.
 * What is missing, or is no JSON, is a value that is not there, and no value of it is.
 */
#ifndef GENERATORS_JSON_H
#define GENERATORS_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* A value, up to the END of the text it is in; AT is NULL: it is not there. */
struct json {
	const char *at, *end;
};

/* The first object in BYTES of TEXT; what stands before it (a program's complaints) is passed over. */
struct json json_object(const char *text, size_t bytes);

/* The member NAME of an object; the first, of several. NAME has no characters that JSON escapes. */
struct json json_member(struct json object, const char *name);

/* The element at INDEX of an array, from 0. */
struct json json_element(struct json array, size_t index);

/* Its number. Returns false, and leaves *number alone, if it is none. */
bool json_number(struct json value, double *number);

/*
 * Its string, cut to what fits into ROOM bytes: quotes, backslashes, control characters and escapes in it become '_',
 * so that it can stand in other JSON. Returns false if it is none.
 */
bool json_text(struct json value, char *text, size_t room);

#endif
