// SPDX-License-Identifier: BSD-2-Clause
/*
 * Kernel stacks and addresses with names, from /proc/kallsyms; stack.jsonl.
 *
 * kallsyms is read once, at the first question (some 200,000 lines, 0.1 s), text symbols and, where the kernel lists
 * them, data symbols. A frame without a name is "[unknown]", or its address if these are asked for (--addresses).
 * Without any names (kptr_restrict) stack.jsonl says so itself.
 */
#include "recorder.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hash.h"
#include "jsonl.h"
#include "common/records.h"
#include "room.h"

#define KERNEL_HALF (1ULL << 63)
#define OWN_FRAMES  6	 /* the tracing has no more on top of a stack */
#define SOME_DATA   2000 /* a kernel that lists data has tens of thousands of such symbols */

struct symbol {
	uint64_t address;
	uint32_t name; /* offset in `text` */
	char type;     /* as nm prints it */
};

static struct line_file file = { .fd = -1 };
static char *text;	       /* kallsyms as read, names cut off in place */
static struct symbol *symbols; /* by address */
static size_t symbol_count;
static uint64_t text_end; /* end of the kernel's own text; 0: not known */
static bool
	data_listed; /* CONFIG_KALLSYMS_ALL; without it a few dozen data symbols are listed all the same */
static bool loaded;
static bool addresses;

struct stack {
	uint64_t key; /* the map's id plus one */
	int32_t number;
	bool written;
};

static struct hash stacks = HASH(struct stack);

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct symbol *)a)->address, y = ((const struct symbol *)b)->address;

	return x < y ? -1 : x > y;
}

/* The whole file; NULL: it can't be read. */
static char *read_all(const char *path, size_t *bytes)
{
	size_t room = 16UL << 20, have = 0;
	char *data = malloc(room + 1), *more;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	while (data && fd >= 0 && (n = read(fd, data + have, room - have)) > 0) {
		have += n;
		if (have == room) {
			room *= 2;
			more = realloc(data, room + 1);
			if (!more) {
				n = -1;
				break;
			}
			data = more;
		}
	}
	if (fd >= 0)
		close(fd);
	if (!data || n < 0) {
		free(data);
		return NULL;
	}
	data[have] = 0;
	*bytes = have;
	return data;
}

static bool is_data(char type)
{
	return strchr("dDbBrR", type) != NULL;
}

/* One line: "ffffffff81000000 T name\t[module]". */
static bool parse_line(char *line, struct symbol *symbol)
{
	char *rest, *name;

	symbol->address = strtoull(line, &rest, 16);
	if (rest == line || rest[0] != ' ' || !rest[1] || rest[2] != ' ')
		return false;
	symbol->type = rest[1];
	name = rest + 3;
	name[strcspn(name, "\t")] = 0;
	symbol->name = name - text;
	/* Absolute and per-CPU symbols are no addresses; __pfx_ is padding before a function. */
	return (symbol->address & KERNEL_HALF) && strncmp(name, "__pfx_", 6) != 0;
}

static void load(void)
{
	size_t bytes = 0, lines = 0, data = 0;
	char *line, *next;

	loaded = true;
	text = read_all("/proc/kallsyms", &bytes);
	if (!text)
		return;
	for (line = text; (line = memchr(line, '\n', text + bytes - line)); line++)
		lines++;
	symbols = malloc((lines + 1) * sizeof(*symbols));
	if (!symbols)
		return;
	for (line = text; line < text + bytes; line = next) {
		next = memchr(line, '\n', text + bytes - line);
		if (!next)
			break;
		*next++ = 0;
		if (parse_line(line, &symbols[symbol_count]))
			symbol_count++;
	}
	qsort(symbols, symbol_count, sizeof(*symbols), by_address);
	for (size_t i = 0; i < symbol_count; i++) {
		data += is_data(symbols[i].type);
		if (!strcmp(text + symbols[i].name, "_etext"))
			text_end = symbols[i].address;
	}
	data_listed = data > SOME_DATA;
}

const char *stacks_symbol(uint64_t address, uint64_t *offset)
{
	size_t low = 0, high;

	if (!loaded)
		load();
	/* The first symbol above the address; without one there is no telling where the last one ends. */
	for (high = symbol_count; low < high;) {
		size_t middle = (low + high) / 2;

		if (symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || low == symbol_count)
		return NULL;
	low--;
	/* Where data symbols are not listed, data would be taken for the end of the text. */
	if (symbols[low].address <= text_end && address >= text_end)
		return NULL;
	if (is_data(symbols[low].type) && !data_listed)
		return NULL;
	*offset = address - symbols[low].address;
	/* Several names for one address: the first listed is as good as any, but the same each time. */
	while (low && symbols[low - 1].address == symbols[low].address)
		low--;
	return text + symbols[low].name;
}

void stacks_each_function(void (*each)(const char *name, uint64_t begin, uint64_t end))
{
	size_t next;

	if (!loaded)
		load();
	for (size_t i = 0; i < symbol_count; i++) {
		for (next = i + 1; next < symbol_count; next++)
			if (symbols[next].address > symbols[i].address)
				break;
		if (next < symbol_count && strchr("tTwW", symbols[i].type))
			each(text + symbols[i].name, symbols[i].address, symbols[next].address);
	}
}

uint64_t stacks_address(const char *name)
{
	if (!loaded)
		load();
	for (size_t i = 0; i < symbol_count; i++)
		if (!strcmp(text + symbols[i].name, name))
			return symbols[i].address;
	return 0;
}

/* Frames of the tracing itself, on top of what the kernel was doing. */
static bool is_tracing(const char *name)
{
	static const char *const starts[] = { "bpf_", "__bpf_", "__traceiter_", "__probestub_",
					      "trace_contention_" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (!strncmp(name, starts[i], strlen(starts[i])))
			return true;
	return false;
}

int stacks_own_frames(const uint64_t *frames, int count)
{
	static const char *const calls[] = { "bpf_trace_run", "__bpf_trace_", "__traceiter_",
					     "__probestub_", "trace_contention_" };
	int own = 0;

	/* A program loaded after kallsyms was read seems to be part of what is listed before it. */
	for (int i = 0; i < OWN_FRAMES && i < count && frames[i]; i++) {
		uint64_t unused;
		const char *name = stacks_symbol(frames[i], &unused);

		for (size_t j = 0; name && j < sizeof(calls) / sizeof(calls[0]); j++)
			if (!strncmp(name, calls[j], strlen(calls[j])))
				own = i + 1;
	}
	return own;
}

static bool write_stack(int32_t number, const uint64_t *frames, int count)
{
	char *line = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&line, &bytes);
	bool top = true, first = true, ok;

	if (!out)
		return false;
	fprintf(out, "{\"stack_id\":%d,\"frames\":[", number);
	for (int i = stacks_own_frames(frames, count); i < count && frames[i]; i++) {
		uint64_t offset = 0;
		const char *name = stacks_symbol(frames[i], &offset);
		char frame[512];

		if (name && top && is_tracing(name))
			continue;
		if (name)
			top = false;
		if (name)
			snprintf(frame, sizeof(frame), "%s+0x%llx", name,
				 (unsigned long long)offset);
		else if (top && symbol_count)
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
	if (!symbol_count)
		fputs(",\"note\":\"/proc/kallsyms has no addresses: set kernel.kptr_restrict to 0 or 1\"",
		      out);
	fputs("}\n", out);
	ok = fclose(out) == 0 && lines_append(&file, line, bytes);
	free(line);
	return ok;
}

int stacks_open(const struct options *options)
{
	addresses = options->addresses;
	return lines_open(&file, options->out_fd, "stack.jsonl");
}

bool stacks_note(int map_fd, int32_t stack_id, int32_t *number)
{
	struct lock_holder_stack stack = { 0 };
	bool of_holder = stack_id >= LOCK_HOLDER_STACK_IDS;
	uint32_t key = stack_id;
	struct stack *noted;
	bool is_new;

	*number = stack_id < 0 ? stack_id : LOCK_STACK_NONE;
	if (stack_id < 0)
		return true;
	noted = hash_add(&stacks, (uint64_t)key + 1, &is_new);
	if (!noted)
		return false;
	if (is_new)
		noted->number = stacks.used - 1;
	*number = noted->number;
	if (noted->written || !room_left())
		return noted->written;
	if (bpf_map_lookup_elem(map_fd, &key, of_holder ? (void *)&stack : stack.frames))
		return false;
	if (!loaded)
		load();
	noted->written = write_stack(noted->number, stack.frames, LOCK_STACK_FRAMES);
	return noted->written;
}

void stacks_flush(void)
{
	lines_flush(&file);
}

void stacks_close(void)
{
	if (!lines_close(&file))
		fprintf(stderr, "recorder: stack.jsonl: the last stacks could not be written\n");
	free(symbols);
	free(text);
	hash_clear(&stacks);
	symbols = NULL;
	text = NULL;
	symbol_count = 0;
	loaded = false;
}
