// SPDX-License-Identifier: BSD-2-Clause
/*
 * Ways for a generator to stop. Both print one line to stderr, "seekmeter: " and the message, and
 * never return. Exit status: 1 the run failed, 2 wrong words on the command line. Of several threads that
 * fail, one speaks; the others are silent, and end when it has.
 */
#ifndef GENERATORS_FAIL_H
#define GENERATORS_FAIL_H

#define EXIT_RUN_FAILED	 1
#define EXIT_WRONG_WORDS 2

void fail(int exit_status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/*
 * From now on the same holds for this process and all that it forks: of them one speaks, be it a child. Of one that is
 * killed before it could another speaks. Call it before the first fork. Not for children that only run another program.
 */
void fail_as_one(void);

/*
 * A system call on PATH failed with errno. WHAT is what was tried ("cannot write"). When the file
 * system is full or out of inodes the message names the remedy.
 */
void fail_errno(const char *what, const char *path) __attribute__((noreturn));

/* malloc/calloc/realloc/strdup that does not return NULL. */
void *must_alloc(void *memory);

#endif
