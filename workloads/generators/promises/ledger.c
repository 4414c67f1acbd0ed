// SPDX-License-Identifier: BSD-2-Clause
/* Reading a log of promises: see ledger.h and log.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/session/fail.h"
#include "promises/ledger.h"
#include "promises/sectors.h"

#define LINE_BYTES    160
#define FILES_MAX     (1u << 28)
#define SECTORS_MAX   4096
#define WORD_BYTES    16
#define NUMBERS_MAX   3
#define FIRST_NUMBERS 1024

struct event {
	int64_t ns;
	uint32_t thread;
	char verb[WORD_BYTES];
	uint64_t numbers[NUMBERS_MAX];
	int count;
	char kind;
};

static void refuse(uint64_t line)
{
	fail(EXIT_RUN_FAILED,
	     "the log of promises: line %" PRIu64 " is not understood: give the log of this run",
	     line);
}

struct told_file *ledger_file(struct ledger *ledger, uint64_t number)
{
	if (number >= ledger->file_count || ledger->files[number].written == 0)
		return NULL;
	return &ledger->files[number];
}

static struct told_file *new_file(struct ledger *ledger, uint64_t number)
{
	size_t count = ledger->file_count > 0 ? ledger->file_count : FIRST_NUMBERS;

	while (count <= number)
		count *= 2;
	if (count > ledger->file_count) {
		ledger->files = must_alloc(realloc(ledger->files, count * sizeof(*ledger->files)));
		memset(ledger->files + ledger->file_count, 0,
		       (count - ledger->file_count) * sizeof(*ledger->files));
		ledger->file_count = count;
	}
	return &ledger->files[number];
}

bool ledger_may_hold(const struct told_name *name, uint64_t file)
{
	for (size_t i = 0; i < name->count; i++)
		if (name->holders[i].file == file)
			return true;
	return false;
}

static void push(struct told_name *name, uint64_t file)
{
	name->holders =
		must_alloc(realloc(name->holders, (name->count + 1) * sizeof(*name->holders)));
	name->holders[name->count++] = (struct holder){ file, false };
	name->is_touched = true;
}

/* The last change of the name has succeeded. */
static void finish(struct told_name *name)
{
	name->holders[name->count - 1].is_done = true;
}

/* The name's file loses its name: it need not be there any more. */
static void end_holder(struct ledger *ledger, const struct told_name *name)
{
	struct told_file *file = ledger_file(ledger, name->holders[name->count - 1].file);

	if (file != NULL)
		file->is_ended = true;
}

static void settle(struct ledger *ledger, uint32_t dir)
{
	for (uint32_t slot = 0; slot < SLOTS_PER_DIR; slot++) {
		struct told_name *name = &ledger->names[dir * SLOTS_PER_DIR + slot];
		struct told_file *file;
		size_t last = name->count - 1;

		while (!name->holders[last].is_done)
			last--; /* the first one is always done */
		memmove(name->holders, name->holders + last,
			(name->count - last) * sizeof(*name->holders));
		name->count -= last;
		file = ledger_file(ledger, name->holders[0].file);
		if (file != NULL)
			file->is_settled = true;
	}
}

static bool is(const struct event *event, const char *verb, int numbers)
{
	return strcmp(event->verb, verb) == 0 && event->count == numbers;
}

static bool write_began(struct ledger *ledger, const struct event *event)
{
	uint64_t number = event->numbers[0], version = event->numbers[1],
		 sectors = event->numbers[2];
	struct told_file *file;

	if (number == 0 || number >= FILES_MAX || version == 0 || version > UINT32_MAX ||
	    sectors == 0 || sectors > SECTORS_MAX || (event->kind != 'a' && event->kind != 'o'))
		return false;
	file = new_file(ledger, number);
	file->thread = event->thread;
	file->written = (uint32_t)version;
	file->sectors = (uint32_t)sectors;
	file->is_appended = event->kind == 'a';
	return true;
}

static bool apply_to_names(struct ledger *ledger, const struct event *event)
{
	struct told_name *name;

	if (event->numbers[0] >= NAMES_MAX)
		return false;
	name = &ledger->names[event->numbers[0]];
	if (is(event, "creates", 2)) {
		push(name, event->numbers[1]);
	} else if (is(event, "removes", 1)) {
		end_holder(ledger, name);
		push(name, 0);
	} else if (is(event, "created", 2) || is(event, "removed", 1)) {
		finish(name);
	} else if ((is(event, "moves", 3) || is(event, "moved", 3)) &&
		   event->numbers[1] < NAMES_MAX) {
		struct told_name *to = &ledger->names[event->numbers[1]];

		if (is(event, "moved", 3)) {
			finish(name);
			finish(to);
			return true;
		}
		end_holder(ledger, to);
		push(name, 0);
		push(to, event->numbers[2]);
	} else {
		return false;
	}
	return true;
}

static bool apply(struct ledger *ledger, const struct event *event, int64_t cut_ns)
{
	struct told_file *file;

	if (is(event, "writes", 3))
		return write_began(ledger, event);
	if (is(event, "synced", 2)) {
		file = ledger_file(ledger, event->numbers[0]);
		if (file == NULL || event->numbers[1] > file->written)
			return false;
		file->synced = (uint32_t)event->numbers[1];
		ledger->told_syncs++;
		ledger->told_late += event->ns > cut_ns;
		return true;
	}
	if (is(event, "settled", 1)) {
		if (event->numbers[0] >= THREADS_MAX * DIRS_PER_THREAD)
			return false;
		settle(ledger, (uint32_t)event->numbers[0]);
		ledger->told_settles++;
		ledger->told_late += event->ns > cut_ns;
		return true;
	}
	return apply_to_names(ledger, event);
}

static bool parse(const char *line, struct event *event)
{
	int found = sscanf(line,
			   "%" SCNd64 " %" SCNu32 " %15[a-z] %" SCNu64 " %" SCNu64 " %" SCNu64
			   " %c",
			   &event->ns, &event->thread, event->verb, &event->numbers[0],
			   &event->numbers[1], &event->numbers[2], &event->kind);

	event->count = found < 6 ? found - 3 : NUMBERS_MAX;
	return found >= 4;
}

struct ledger *ledger_read(FILE *log, int64_t cut_ns)
{
	struct ledger *ledger = must_alloc(calloc(1, sizeof(*ledger)));
	char line[LINE_BYTES];
	uint64_t number = 0;

	for (size_t i = 0; i < NAMES_MAX; i++) {
		push(&ledger->names[i], 0);
		finish(&ledger->names[i]);
		ledger->names[i].is_touched = false;
	}
	while (fgets(line, sizeof(line), log) != NULL && strchr(line, '\n') != NULL) {
		struct event event = { 0 };

		if (number++ == 0) {
			if (sscanf(line, "promises 1 %" SCNu64 " %" SCNu64, &ledger->threads,
				   &ledger->seed) != 2 ||
			    ledger->threads == 0 || ledger->threads > THREADS_MAX)
				refuse(number);
		} else if (!parse(line, &event) || event.thread >= ledger->threads ||
			   !apply(ledger, &event, cut_ns)) {
			refuse(number);
		}
	}
	if (ferror(log))
		fail_errno("cannot read", "the log of promises");
	return ledger;
}

void ledger_free(struct ledger *ledger)
{
	for (size_t i = 0; i < NAMES_MAX; i++)
		free(ledger->names[i].holders);
	free(ledger->files);
	free(ledger);
}
