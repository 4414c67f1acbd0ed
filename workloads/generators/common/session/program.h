// SPDX-License-Identifier: BSD-2-Clause
/* Runs another program as part of a workload and reads its standard output. */
#ifndef GENERATORS_PROGRAM_H
#define GENERATORS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct program_output {
	uint64_t bytes;
	uint64_t lines;
	char first[4096]; /* the beginning of the output, as text */
	void (*on_output)(
		struct program_output *output); /* called when output arrives; may be NULL */
	bool with_stderr;			/* read standard error too */
	bool may_fail;				/* the caller checks exit_status */
	int exit_status;
	pid_t pid; /* set before the first output */
};

/*
 * Runs argv (searched in $PATH) and waits for its end. in: the program's standard input; -1: empty. output: filled in;
 * the caller sets on_output, with_stderr and may_fail, and zeroes the rest. A missing program, or an exit status other
 * than 0 without may_fail, ends this process. The program never outlives this process.
 */
void program_run(const char *const argv[], int in, struct program_output *output);

/* The path of the generator called name, in the folder of this program. */
const char *sibling_program(const char *name);

#endif
