// SPDX-License-Identifier: BSD-2-Clause
/*
 * Error exits of a generator. fail() and fail_errno() print one line to stderr, "seekmeter: " and the message, and
 * never return. Exit status: 1 the run failed, 2 a wrong option. If several threads fail, one prints its message; the
 * others print nothing and end with the process.
 */
#ifndef GENERATORS_FAIL_H
#define GENERATORS_FAIL_H

#define EXIT_RUN_FAILED	 1
#define EXIT_WRONG_WORDS 2

void fail(int exit_status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/*
 * Extends the single message to all processes that this process forks: the first to fail prints its message, and the
 * others print nothing. If that process is killed before it prints, another prints. To be called before the first fork;
 * not needed for children that only run another program.
 */
void fail_as_one(void);

/*
 * Ends the program after a system call on PATH has failed with errno. WHAT: the failed action ("cannot write"). If the
 * file system is full or read-only, the message names the remedy.
 */
void fail_errno(const char *what, const char *path) __attribute__((noreturn));

/* Returns MEMORY, the result of an allocation; NULL ends the program. */
void *must_alloc(void *memory);

#endif
