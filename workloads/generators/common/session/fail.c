// SPDX-License-Identifier: BSD-2-Clause
/* Error messages and exit statuses. If several threads or processes fail, one message is printed; see fail.h. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fail.h"

/* The first failing thread takes the lock for good and prints its message; the others wait until the process ends. */
struct failure {
	pthread_mutex_t lock;
	bool printed;
};

static struct failure process_failure = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct failure *failure = &process_failure;

void fail_as_one(void)
{
	struct failure *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attributes;

	if (shared == MAP_FAILED)
		fail_errno("cannot be mapped", "memory");
	/* Robust: if the owner is killed, the kernel gives the lock to a waiter. None of these calls can fail. */
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&shared->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	failure = shared;
}

/* Prints the line with one write(2), so that no other process's output to the same log splits it. */
static void print_message(const char *format, va_list args)
{
	char line[PIPE_BUF] = "seekmeter: ";
	size_t length = strlen(line);
	int wanted = vsnprintf(line + length, sizeof(line) - length, format, args);

	length += wanted > 0 ? (size_t)wanted : 0;
	if (length > sizeof(line) - 1)
		length = sizeof(line) - 1;
	line[length++] = '\n'; /* where the NUL was */
	fflush(stdout); /* progress first, so that the last line in a joint log is the error */
	while (write(STDERR_FILENO, line, length) < 0 && errno == EINTR)
		continue;
}

void fail(int exit_status, const char *format, ...)
{
	va_list args;

	if (pthread_mutex_lock(&failure->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&failure->lock);
	if (!failure->printed) {
		va_start(args, format);
		print_message(format, args);
		va_end(args);
		failure->printed = true;
	}
	exit(exit_status);
}

void fail_errno(const char *what, const char *path)
{
	int error = errno;
	const char *remedy = "";
	char reason[128];

	snprintf(reason, sizeof(reason), "%s", strerror(error));
	reason[0] = (char)tolower((unsigned char)reason[0]);
	if (error == ENOSPC || error == EDQUOT)
		remedy = "; give a larger disk (SIZE=) or a smaller SCALE=";
	else if (error == EROFS)
		remedy = "; look in dmesg for why the file system went read-only";
	fail(EXIT_RUN_FAILED, "%s: %s: %s%s", path, what, reason, remedy);
}

void *must_alloc(void *memory)
{
	if (memory == NULL)
		fail(EXIT_RUN_FAILED, "memory is used up; give the workload more (MEM=)");
	return memory;
}
