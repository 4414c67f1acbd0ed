// SPDX-License-Identifier: BSD-2-Clause
/* Runs another program as a part of a workload, and takes what it says on its standard output. */
#ifndef GENERATORS_PROGRAM_H
#define GENERATORS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct said {
	uint64_t bytes;
	uint64_t lines;
	char first[4096];		 /* its beginning, as text */
	void (*hear)(struct said *said); /* called at every part, as it comes; NULL: not wanted */
	bool complaints;		 /* take its standard error, too */
	bool may_fail;			 /* then look at its exit status */
	int exit_status;
	pid_t pid; /* set before it says anything */
};

/*
 * Run ARGV (found in PATH) to its end. IN: its standard input; -1: empty. SAID takes what it says, and begins all
 * zero but for hear, complaints and may_fail. A program that is missing, or does not end with exit status 0 and may
 * not fail, ends this one; what it complained of is on our standard error. It does not outlive this one.
 */
void program_run(const char *const argv[], int in, struct said *said);

/* The generator NAME, which lies beside this program. */
const char *program_beside(const char *name);

#endif
