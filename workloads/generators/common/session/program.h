// SPDX-License-Identifier: BSD-2-Clause
/* Runs another program as a part of a workload, and reads its standard output. */
#ifndef GENERATORS_PROGRAM_H
#define GENERATORS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct program_output {
	uint64_t bytes;
	uint64_t lines;
	char first[4096]; /* its beginning, as text */
	void (*on_output)(struct program_output
				  *output); /* called whenever output arrives; NULL: not wanted */
	bool with_stderr;		    /* read its standard error too */
	bool may_fail;			    /* the caller checks exit_status */
	int exit_status;
	pid_t pid; /* set before the first output */
};

/*
 * Runs argv (found in $PATH) to its end. in: its standard input; -1: empty. output: filled; all zero at first but
 * on_output, with_stderr and may_fail. A missing program, or an exit status other than 0 without may_fail, ends this
 * process; the program's error messages are on our standard error. The program never outlives this process.
 */
void program_run(const char *const argv[], int in, struct program_output *output);

/* The path of the generator called name, in the folder of this program. */
const char *sibling_program(const char *name);

#endif
