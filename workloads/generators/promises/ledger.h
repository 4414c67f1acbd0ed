// SPDX-License-Identifier: BSD-2-Clause
/*
 * What a log of promises promises: of each file the versions that it may have, of each name the files that it may hold.
 * A name's operations reach the disk in their order, so after a power cut it holds what it held after the last operation
 * that was settled, or after any later one that had begun.
 */
#ifndef PROMISES_LEDGER_H
#define PROMISES_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "promises/names.h"

struct told_file {
	uint32_t thread;
	uint32_t written; /* the newest version that was begun; 0: the file is not known */
	uint32_t synced;  /* the newest version that is promised; 0: none */
	uint32_t sectors; /* of a version */
	bool is_appended;
	bool is_settled; /* its directory was synced: it has a name */
	bool is_ended;	 /* its removal, or a rename over it, has begun */
	uint32_t found;	 /* names under which the check found it */
};

struct holder {
	uint64_t file; /* 0: none */
	bool is_done;
};

/* A name's holders: the one that is settled, then the later ones. */
struct told_name {
	struct holder *holders;
	size_t count;
	bool is_touched;
};

struct ledger {
	uint64_t threads; /* 0: the cut came before the first promise was possible */
	uint64_t seed;
	struct told_file *files; /* by number */
	size_t file_count;
	struct told_name names[NAMES_MAX];
	uint64_t told_syncs;
	uint64_t told_settles;
	uint64_t told_late; /* of both, after cut_ns */
};

/* Reads the log. A line that promises does not write ends the program; a last line without its newline is left out. */
struct ledger *ledger_read(FILE *log, int64_t cut_ns);
void ledger_free(struct ledger *ledger);

/* Returns the file of this number; NULL: the log has none. */
struct told_file *ledger_file(struct ledger *ledger, uint64_t number);

/* Returns whether the name may hold the file (0: none). */
bool ledger_may_hold(const struct told_name *name, uint64_t file);

#endif
