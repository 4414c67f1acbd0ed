// SPDX-License-Identifier: BSD-2-Clause
/*
 * The kernel's symbols, from /proc/kallsyms; see ksyms.h.
 *
 * Text symbols and, where the kernel lists them (CONFIG_KALLSYMS_ALL), data symbols.
 */
#include "ksyms.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KERNEL_HALF (1ULL << 63)
#define SOME_DATA   2000 /* a kernel that lists data has tens of thousands of such symbols */

struct symbol {
	uint64_t address;
	uint32_t name; /* offset in `text` */
	char type;     /* as nm prints it */
};

static char *text;	       /* kallsyms as read, names cut off in place */
static struct symbol *symbols; /* by address */
static size_t symbol_count;
static uint64_t text_end; /* end of the kernel's own text; 0: not known */
/* CONFIG_KALLSYMS_ALL: all data symbols are listed. Without it, only a few dozen are. */
static bool data_listed;
static bool loaded;

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct symbol *)a)->address, y = ((const struct symbol *)b)->address;

	return x < y ? -1 : x > y;
}

/* The file's contents, NUL-terminated; NULL: it can't be read. */
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
	/* Absolute and per-CPU symbols have no kernel address; __pfx_ symbols are padding before a function. */
	return (symbol->address & KERNEL_HALF) && strncmp(name, "__pfx_", 6) != 0;
}

static void read_symbols(void)
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

bool ksyms_load(void)
{
	if (!loaded)
		read_symbols();
	return symbol_count > 0;
}

const char *ksyms_symbol(uint64_t address, uint64_t *offset)
{
	size_t low = 0, high;

	ksyms_load();
	/* The first symbol above the address. Without one, the last symbol's end is not known. */
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
	/* Without data symbols, an address in data would get the name of the last function. */
	if (symbols[low].address <= text_end && address >= text_end)
		return NULL;
	if (is_data(symbols[low].type) && !data_listed)
		return NULL;
	*offset = address - symbols[low].address;
	/* Of several names of one address always the first listed. */
	while (low && symbols[low - 1].address == symbols[low].address)
		low--;
	return text + symbols[low].name;
}

void ksyms_each_function(void (*each)(const char *name, uint64_t begin, uint64_t end))
{
	size_t next;

	ksyms_load();
	for (size_t i = 0; i < symbol_count; i++) {
		for (next = i + 1; next < symbol_count; next++)
			if (symbols[next].address > symbols[i].address)
				break;
		if (next < symbol_count && strchr("tTwW", symbols[i].type))
			each(text + symbols[i].name, symbols[i].address, symbols[next].address);
	}
}

uint64_t ksyms_address(const char *name)
{
	ksyms_load();
	for (size_t i = 0; i < symbol_count; i++)
		if (!strcmp(text + symbols[i].name, name))
			return symbols[i].address;
	return 0;
}

void ksyms_unload(void)
{
	free(symbols);
	free(text);
	symbols = NULL;
	text = NULL;
	symbol_count = 0;
	loaded = false;
}
