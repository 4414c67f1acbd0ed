// SPDX-License-Identifier: BSD-2-Clause
/*
 * Kernel stacks with symbols, each written once, into stack.jsonl.
 *
 * A frame without a symbol is "[unknown]", or its address with --addresses. Where the kernel shows no symbols at all
 * (kptr_restrict), each line has a note.
 */
#include "stacks.h"

#include <bpf/bpf.h>
#include <stdlib.h>
#include <string.h>

#include "common/records.h"
#include "hash.h"
#include "jsonl.h"
#include "ksyms.h"
#include "locks/names/lock_functions.h"
#include "options.h"
#include "room.h"

#define OF_THREADS (1ULL << 32)
#define OWN_FRAMES 6 /* the most frames that the tracing has on top of a stack */

static struct jsonl file = { .fd = -1 };
static bool addresses;

struct stack {
	uint64_t key; /* the map's id plus one; of the threads' map, plus OF_THREADS */
	int32_t number;
	bool written;
};

static struct hash stacks = HASH(struct stack);

int stacks_own_frames(const uint64_t *frames, int count)
{
	int own = 0;

	/* A program loaded after kallsyms was read gets the name of the symbol listed before it. */
	for (int i = 0; i < OWN_FRAMES && i < count && frames[i]; i++) {
		uint64_t unused;
		const char *name = ksyms_symbol(frames[i], &unused);

		if (name && is_tracing_call(name))
			own = i + 1;
	}
	return own;
}

static bool write_stack(int32_t number, const uint64_t *frames, int count)
{
	char *line = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&line, &bytes);
	bool have_symbols = ksyms_load();
	bool top = true, first = true, ok;

	if (!out)
		return false;
	fprintf(out, "{\"stack_id\":%d,\"frames\":[", number);
	for (int i = stacks_own_frames(frames, count); i < count && frames[i]; i++) {
		uint64_t offset = 0;
		const char *name = ksyms_symbol(frames[i], &offset);
		char frame[512];

		if (name && top && is_tracing_function(name))
			continue;
		if (name)
			top = false;
		if (name)
			snprintf(frame, sizeof(frame), "%s+0x%llx", name,
				 (unsigned long long)offset);
		else if (top && have_symbols)
			continue; /* the BPF program's own frame has no symbol everywhere */
		else if (addresses)
			snprintf(frame, sizeof(frame), "0x%llx", (unsigned long long)frames[i]);
		else
			snprintf(frame, sizeof(frame), "[unknown]");
		if (!first)
			fputc(',', out);
		first = false;
		json_string(out, frame);
	}
	fputs("]", out);
	if (!have_symbols)
		fputs(",\"note\":\"/proc/kallsyms has no addresses: set kernel.kptr_restrict to 0 or 1\"",
		      out);
	fputs("}\n", out);
	ok = fclose(out) == 0 && jsonl_append(&file, line, bytes);
	free(line);
	return ok;
}

int stacks_open(const struct options *options)
{
	addresses = options->addresses;
	return jsonl_open(&file, options->whole_fd, "stack.jsonl");
}

/* The longest stack of any map, behind its hash. */
struct any_stack {
	uint64_t hash;
	uint64_t frames[THREAD_STACK_FRAMES > LOCK_STACK_FRAMES ? THREAD_STACK_FRAMES
								: LOCK_STACK_FRAMES];
};

/* key: the same for the same stack of the same map. has_hash: a hash stands before the frames. */
static bool note(uint64_t key, int map_fd, int32_t stack_id, bool has_hash, int frames,
		 int32_t *number)
{
	struct any_stack stack = { 0 };
	struct stack *noted;
	bool is_new;

	*number = stack_id < 0 ? stack_id : LOCK_STACK_NONE;
	if (stack_id < 0)
		return true;
	noted = hash_add(&stacks, key, &is_new);
	if (!noted)
		return false;
	if (is_new)
		noted->number = stacks.used - 1;
	*number = noted->number;
	if (noted->written || !room_left())
		return noted->written;
	if (bpf_map_lookup_elem(map_fd, &stack_id, has_hash ? (void *)&stack : stack.frames))
		return false;
	noted->written = write_stack(noted->number, stack.frames, frames);
	return noted->written;
}

bool stacks_note(int map_fd, int32_t stack_id, int32_t *number)
{
	return note((uint64_t)(uint32_t)stack_id + 1, map_fd, stack_id,
		    stack_id >= LOCK_HOLDER_STACK_IDS, LOCK_STACK_FRAMES, number);
}

bool stacks_note_of_thread(int map_fd, int32_t stack_id, int32_t *number)
{
	return note(OF_THREADS + (uint32_t)stack_id, map_fd, stack_id, true, THREAD_STACK_FRAMES,
		    number);
}

void stacks_flush(void)
{
	jsonl_flush(&file);
}

void stacks_close(void)
{
	if (!jsonl_close(&file))
		fprintf(stderr, "recorder: stack.jsonl: the last stacks could not be written\n");
	hash_clear(&stacks);
	ksyms_unload();
}
