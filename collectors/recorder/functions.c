// SPDX-License-Identifier: BSD-2-Clause
/*
 * Kernel functions by number; see functions.h.
 *
 * A module loaded after the symbols were read has none of its functions among them: an address that is no function's
 * begin has the symbols read again, a few times at most.
 */
#include "functions.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "jsonl.h"
#include "ksyms.h"
#include "options.h"

#define MOST_READS   8 /* of the symbols, 0.1 s each */
#define LONGEST_NAME 256

static struct jsonl file = { .fd = -1 };

struct function {
	uint64_t address;
	uint32_t id;
	uint32_t pad;
};

static struct hash functions = HASH(struct function);
static uint64_t *addresses; /* by number - 1, of all functions */
static uint32_t count, room, written;
static int reads;

int functions_open(const struct options *options)
{
	return jsonl_open(&file, options->whole_fd, "function.jsonl");
}

static bool make_room(void)
{
	uint32_t more = room ? room * 2 : 256;
	uint64_t *grown;

	if (count < room)
		return true;
	grown = realloc(addresses, more * sizeof(*grown));
	if (!grown)
		return false;
	addresses = grown;
	room = more;
	return true;
}

uint32_t functions_note(uint64_t address)
{
	struct function *function;
	bool is_new;

	if (!address)
		return 0;
	function = hash_find(&functions, address);
	if (function)
		return function->id;
	if (!make_room())
		return 0;
	function = hash_add(&functions, address, &is_new);
	if (!function)
		return 0;
	addresses[count++] = address;
	function->id = count;
	return function->id;
}

uint32_t functions_note_low(uint32_t low)
{
	static uint64_t text;
	uint64_t address;

	if (!low)
		return 0;
	if (!text)
		text = ksyms_address("_stext");
	address = (text & ~(uint64_t)UINT32_MAX) | low;
	if (address > text && address - text > 1ULL << 31)
		address -= 1ULL << 32;
	else if (address < text && text - address > 1ULL << 31)
		address += 1ULL << 32;
	return functions_note(address);
}

uint32_t functions_count(void)
{
	return count;
}

static const char *name_of(uint64_t address)
{
	uint64_t offset = 0;
	const char *name = ksyms_symbol(address, &offset);

	if ((!name || offset) && ksyms_load() && reads < MOST_READS) {
		reads++;
		ksyms_unload();
		name = ksyms_symbol(address, &offset);
	}
	return name && !offset ? name : NULL;
}

static bool write_function(uint32_t id, const char *name)
{
	static const char *const suffixes[] = { ".isra.", ".constprop.", ".part.", ".cold",
						".llvm." };
	char whole[LONGEST_NAME], line[LONGEST_NAME + 64];
	int bytes;

	snprintf(whole, sizeof(whole), "%s", name ? name : "[unknown]");
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		char *suffix = strstr(whole, suffixes[i]);

		if (suffix)
			*suffix = 0;
	}
	/* A symbol has no character that JSON escapes. */
	bytes = snprintf(line, sizeof(line), "{\"id\":%u,\"name\":\"%s\"}\n", id, whole);
	return jsonl_append(&file, line, bytes);
}

void functions_flush(void)
{
	while (written < count && write_function(written + 1, name_of(addresses[written])))
		written++;
	jsonl_flush(&file);
}

void functions_close(void)
{
	if (!jsonl_close(&file))
		fprintf(stderr,
			"recorder: function.jsonl: the last functions could not be written\n");
	hash_clear(&functions);
	free(addresses);
	addresses = NULL;
	count = room = written = 0;
	reads = 0;
}
